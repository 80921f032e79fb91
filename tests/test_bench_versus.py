"""Against an earlier report: what is compared with what, how sure it is, what no report is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_support import request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orin_llm.bench.device_use import DeviceUse, PhaseUse
from orin_llm.bench.from_json import WrongMember, from_json
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.ratios import unpaired
from orin_llm.bench.records import Run
from orin_llm.bench.report import FORMATS
from orin_llm.bench.result import Conditions, Earlier, Report, Result
from orin_llm.bench.result_file import read_results
from orin_llm.bench.start_result import StartResult
from orin_llm.bench.streams import Streams
from orin_llm.bench.versus import Difference, Versus, require_common
from orin_llm.device.phases import activity
from orin_llm.errors import ResultFileError, UsageError

ENVIRONMENT: dict[str, Any] = {
    "version": "9.9",
    "commit": "abc1234",
    "llama_cpp": "llama 1.2",
    "upstream_commit": "def",
    "model": {"name": "tiny", "quant": "Q4_1", "parameters": 1_500_000, "bytes": 2_000_000},
    "machine": {"device": "cpu", "cpu": "A CPU", "architecture": "x86_64", "cores": 2},
}
ENGINE: dict[str, object] = {"name": "orin-llm all", "threads": 2, "chunk_size": 512}
BEFORE = Path("before.json")


def result(scales: list[float], *, prompt: int = 100, **engine: object) -> Result:
    """A prompt in 500 ms, then a token every 10 ms; all of it `scale` times in each repetition."""
    runs = [Run((request([500 * s, 510 * s, 520 * s], prompt_tokens=prompt),)) for s in scales]
    scenario = Streams(1, Lengths(prompt, prompt), Lengths(3, 3))
    conditions = Conditions(scenario, chunk_size=512, warmup=1, seed=7)
    return conditions.result({**ENGINE, **engine}, runs, runs)


def report(*results: Result, **environment: object) -> Report[Result]:
    return Report({**ENVIRONMENT, **environment}, results)


def versus(before: Report[Any], now: Report[Any], path: Path = BEFORE) -> Versus:
    found = set_against(before, now, path).versus
    assert found is not None
    return found


def set_against(before: Report[Any], now: Report[Any], path: Path = BEFORE) -> Report[Any]:
    return replace(now, earlier=Earlier(path, before))


SLOW = result([2.0, 2.02, 1.98])
FAST = result([1.0, 1.01, 0.99])


def test_twice_as_fast_is_told_of_rates_and_of_times_as_two() -> None:
    (pair,) = versus(report(SLOW), report(FAST)).pairs
    changes = {change.figure: change for change in pair.changes}
    for name in ("prefill_tokens_per_s", "decode_tokens_per_s", "ttft_ms", "tpot_ms"):
        assert changes[name].ratio.mean == pytest.approx(2, rel=1e-3)
        assert changes[name].verdict == "faster"
    assert (changes["ttft_ms"].before, changes["ttft_ms"].now) == (1000, 500)
    (back,) = versus(report(FAST), report(SLOW)).pairs
    assert {change.verdict for change in back.changes} == {"slower"}


def test_the_interval_is_that_of_the_repetitions() -> None:
    (pair,) = versus(report(SLOW), report(FAST)).pairs
    found = {change.figure: change.ratio for change in pair.changes}["tpot_ms"]
    wanted = unpaired([20.0, 20.2, 19.8], [10.0, 10.1, 9.9])
    assert wanted is not None and found.low is not None and 1.9 < found.low < found.mean
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_a_difference_within_what_varies_is_none() -> None:
    noisy = result([1.0, 1.4, 0.8]), result([1.1, 0.9, 1.3])
    (pair,) = versus(report(noisy[0]), report(noisy[1])).pairs
    assert {change.verdict for change in pair.changes} == {"not significant"}


def test_of_one_repetition_nothing_is_sure() -> None:
    (pair,) = versus(report(result([2.0])), report(result([1.0]))).pairs
    assert {change.verdict for change in pair.changes} == {"not told"}
    assert {change.ratio.low for change in pair.changes} == {None}


def test_figures_without_a_direction_are_more_or_less() -> None:
    one, other = (
        replace(r, figures={"others_over_first": r.figures["ttft_ms"]},
                repeated={"others_over_first": r.repeated["ttft_ms"]})
        for r in (FAST, SLOW)
    )  # fmt: skip
    (pair,) = versus(report(one), report(other)).pairs
    assert [(c.verdict, round(c.ratio.mean, 2)) for c in pair.changes] == [("more", 2.0)]


def test_results_are_compared_within_their_workload() -> None:
    before = report(SLOW, result([1.0], prompt=200))
    now = report(result([1.0], prompt=400), FAST)
    found = versus(before, now)
    assert [pair.label for pair in found.pairs] == ["single p100 n3"]
    assert found.only_before == ("single p200 n3, orin-llm all",)
    assert found.only_now == ("single p400 n3, orin-llm all",)


def test_of_several_engines_those_with_the_same_settings_are_compared() -> None:
    before = report(*(result([1.0], chunk_size=c, threads=1) for c in (256, 512)))
    now = report(*(result([1.0], chunk_size=c, threads=2) for c in (512, 256, 1024)))
    found = versus(before, now)
    assert len(found.pairs) == 2 and len(found.only_now) == 1 and not found.only_before
    for pair in found.pairs:  # what varies among them is the same, what does not is told
        assert pair.differences == (Difference("threads", 1, 2),)


def test_the_only_two_of_a_workload_are_compared_whatever_their_engines_are() -> None:
    found = versus(report(SLOW), report(result([1.0], name="stock", chunk_size=64)))
    assert [d.text for d in found.pairs[0].differences] == [
        "name orin-llm all → stock",
        "chunk_size 512 → 64",
    ]


def test_programs_are_told_apart_from_conditions() -> None:
    machine = {**ENVIRONMENT["machine"], "power_mode": None}
    before = report(SLOW, commit="old", machine=machine)
    now = report(FAST, commit="new", machine={**machine, "power_mode": "30W", "more": 1})
    found = versus(before, now)
    assert [d.text for d in found.program] == ["commit old → new"]
    assert [d.text for d in found.conditions] == ["machine.power_mode not told → 30W"]


def test_a_machine_that_was_warmer_and_clocks_that_were_others_are_told() -> None:
    def warm(hottest: float | None, emc: tuple[float, float], throttled: tuple[str, ...]) -> Any:
        made = report(SLOW, measured_at=str(hottest), at_start={"hottest_c": hottest})
        nothing = PhaseUse(activity([], [], 1000), 0)
        device = DeviceUse(nothing, nothing, nothing, throttled=throttled, emc_mhz_spread=emc)
        return replace(made, results=(replace(SLOW, device=device),))

    cool, hot = warm(40.0, (204, 3199), ()), warm(61.5, (204, 2133), ("gpu",))
    found = versus(cool, hot)
    assert [d.text for d in found.conditions] == ["hottest at start, °C 40 → 61.5"]
    assert [d.text for d in found.pairs[0].differences] == [
        "emc_mhz under load 3199 → 2133",
        "throttled nothing → gpu",
    ]
    alike = versus(cool, warm(42.0, (2133, 3180), ()))
    assert alike.conditions == alike.pairs[0].differences == ()
    assert versus(cool, warm(None, (204, 3199), ())).conditions == ()


def test_markdown_says_loudly_what_was_not_the_same() -> None:
    before = report(SLOW, machine={**ENVIRONMENT["machine"], "cores": 8})
    now = report(replace(FAST, engine={**FAST.engine, "threads": 1}))
    text = FORMATS["md"](set_against(before, now))
    assert "**Not measured under the same conditions**: machine.cores 8 → 2" in text
    assert "**Not measured with the same settings**: single p100 n3: threads 2 → 1" in text
    row = next(line for line in text.splitlines() if "TTFT ms" in line)
    assert [cell.strip() for cell in row.strip("|").split("|")][2:6] == [
        "TTFT ms", "1000", "500.0", "2.000",
    ]  # fmt: skip
    assert row.rstrip(" |").endswith("faster")
    same = FORMATS["md"](set_against(now, now))
    assert "Not measured" not in same and "program:" not in same


def test_the_same_difference_of_all_workloads_is_told_once() -> None:
    results = result([1.0]), result([1.0], prompt=200)
    before = report(*results)
    now = report(*(replace(r, engine={**r.engine, "threads": 1}) for r in results))
    text = FORMATS["md"](set_against(before, now))
    assert text.count("Not measured with") == 1 and "settings**: all workloads: threads" in text


def test_json_has_the_comparison_with_its_verdicts() -> None:
    now = report(FAST)
    found = json.loads(FORMATS["json"](set_against(report(SLOW), now)))
    (pair,) = found["versus"]["pairs"]
    assert {change["verdict"] for change in pair["changes"]} == {"faster"}
    assert found["versus"]["path"] == "before.json"


def test_a_workload_that_the_earlier_report_has_not_is_refused_before_it_is_run() -> None:
    earlier = Earlier(BEFORE, report(SLOW))
    require_common(earlier, [SLOW.workload, {"workload": "other"}])
    with pytest.raises(UsageError, match="it has single p100 n3"):
        require_common(earlier, [{"workload": "other"}])


@pytest.mark.parametrize("layout", ["json", "jsonl"])
def test_a_report_that_was_written_is_read_again(layout: str, tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text(FORMATS[layout](report(SLOW, FAST)))
    found = read_results(path)
    assert found.results == (SLOW, FAST)
    assert found.environment == ENVIRONMENT


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
    path.write_text(FORMATS["json"](Report(ENVIRONMENT, (start,))))
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


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
