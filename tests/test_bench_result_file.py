"""Reports that are read again: what was written, older ones, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench_reports import ENGINE, FAST, SLOW, report, set_against, versus
from bench_support import UNSTAMPED
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orin_llm.bench.from_json import WrongMember, from_json
from orin_llm.bench.report import FORMATS
from orin_llm.bench.result import Report, Result
from orin_llm.bench.result_file import read_results
from orin_llm.bench.start_result import StartResult
from orin_llm.errors import ResultFileError, UsageError


@pytest.mark.parametrize("layout", ["json", "jsonl"])
def test_a_report_that_was_written_is_read_again(layout: str, tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text(FORMATS[layout](report(SLOW, FAST)))
    found = read_results(path)
    assert found.results == (SLOW, FAST)
    assert found.environment == UNSTAMPED


def test_a_report_that_was_compared_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "results"
    now = report(FAST)
    path.write_text(FORMATS["json"](set_against(report(SLOW), now)))
    assert read_results(path) == now


def test_starts_are_read_again(tmp_path: Path) -> None:
    start = StartResult(
        "load p32 cold", {"workload": "load"}, ENGINE, 3, 1, 0, FAST.figures,
        speedup={}, outliers={"ttft_ms": (2,)}, repeated=FAST.repeated,
    )  # fmt: skip
    path = tmp_path / "results"
    path.write_text(FORMATS["json"](Report(UNSTAMPED, (start,))))
    found = read_results(path)
    assert found.results == (start,)
    (pair,) = versus(found, found, path).pairs
    assert {change.figure for change in pair.changes} == set(FAST.figures)


def test_an_older_report_without_the_repetitions_compares_medians(tmp_path: Path) -> None:
    data = json.loads(FORMATS["json"](report(SLOW)))
    for name in ("repeated", "itl_histogram", "timeline"):
        del data["results"][0][name]
    data["results"][0]["some_new_member"] = 1
    path = tmp_path / "old.json"
    path.write_text(json.dumps(data))
    (pair,) = versus(read_results(path), report(FAST), path).pairs
    assert {change.verdict for change in pair.changes} == {"not told"}
    assert {round(change.ratio.mean, 3) for change in pair.changes} == {2.0}


WRITTEN = FORMATS["json"](report(SLOW))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("| workload | engine |\n", "no JSON"),
        ("version,commit\n9.9,abc\n", "no JSON"),
        (WRITTEN[: len(WRITTEN) // 2], "damaged JSON"),
        ("[1, 2]", "it is no object"),
        ("{}", "it holds no results"),
        ('{"results": 5}', "results is no array"),
        ('{"results": []}', "it holds no results"),
        ('{"version": "1", "results": [{}]}', "results[0]: label is missing"),
        (WRITTEN.replace('"completed": 3', '"completed": "3"'), "completed is '3': expected"),
        (WRITTEN.replace('"mean"', '"men"', 1), "mean is missing"),
        (WRITTEN.replace('"version": "9.9",', ""), "version is missing"),
        (WRITTEN.replace('"name": "orin-llm all"', '"name": 5'), "engine.name is missing"),
        (WRITTEN.replace('"seed": 7', '"seed": NaN'), "damaged JSON"),
        ("{" * 100_000, "damaged JSON"),
        (b"\xff\xfe\x00\x01", "it is no text"),
        (b"GGUF\x03\x00\x00\x00\x80", "it is no text"),
    ],
)  # fmt: skip
def test_another_file_is_refused_with_the_reason(
    content: str | bytes, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ResultFileError) as refused:
        read_results(path)
    assert why in str(refused.value) and str(path) in str(refused.value)
    assert "bench -o json" in str(refused.value)


def test_what_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="cannot read"):
            read_results(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_damage_of_one_member_is_told_or_harmless(data: st.DataObject, tmp_path: Path) -> None:
    """A member anywhere becomes any value: a report, or one of the two errors."""
    tree = json.loads(WRITTEN)
    place = tree
    while True:
        name = data.draw(st.sampled_from(sorted(place)))
        if isinstance(place[name], dict) and place[name] and data.draw(st.booleans()):
            place = place[name]
        elif name == "results" and isinstance(place[name], list) and data.draw(st.booleans()):
            place = place[name][0]
        else:
            place[name] = data.draw(json_values)
            break
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(tree))
    try:
        found = read_results(path)
        versus(found, report(FAST), path)
    except ResultFileError:
        pass


def test_members_are_checked_by_their_types() -> None:
    good = json.loads(WRITTEN)["results"][0]
    assert from_json(Result, good) == SLOW
    for member, value, said in [
        ("repetitions", True, "repetitions is True"),
        ("errors", "x", "errors is 'x': expected an array"),
        ("latency", [], "latency is an array: expected an object"),
        ("itl_histogram", {"edges_ms": [1, None], "counts": []}, "itl_histogram.edges_ms[1]"),
        ("figures", {"ttft_ms": {**good["figures"]["ttft_ms"], "std": 1e999}}, "ttft_ms.std"),
    ]:
        with pytest.raises(WrongMember) as wrong:
            from_json(Result, {**good, member: value})
        assert said in str(wrong.value)
