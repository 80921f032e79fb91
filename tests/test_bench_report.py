"""One schema, four formats: what a result holds, and how each format shows it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_support import ENVIRONMENT, MiB, failed, request, run_of, step

from orin_llm.bench.distribution import Spread
from orin_llm.bench.flat import flatten
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.records import KvUse, Run
from orin_llm.bench.report import FORMATS
from orin_llm.bench.result import Conditions, Report, Result
from orin_llm.bench.shared_prefix import SharedPrefix
from orin_llm.bench.streams import Streams
from orin_llm.bench.tables import figure
from orin_llm.bench.tables import table as bench_table
from orin_llm.bench.workload import Scenario
from orin_llm.host.repository import commit

OURS: dict[str, object] = {"name": "orin-llm all", "threads": 2, "chunk_size": 512}
STOCK: dict[str, object] = {"name": "stock", "threads": 2, "chunk_size": 512}
SINGLE = Streams(1, Lengths(100, 100), Lengths(3, 3))
USE = KvUse(MiB // 125, 99 * MiB, lookups=1000, misses=5)  # of 1 MiB, 100 tokens take 0.8


def result(
    scenario: Scenario, engine: dict[str, object], runs: list[Run], first: list[Run] | None = None
) -> Result:
    conditions = Conditions(scenario, chunk_size=512, warmup=1, seed=7)
    return conditions.result(engine, runs, runs if first is None else first)


def single(scale: float, use: KvUse | None = None) -> Run:
    """A prompt of 100 tokens in 500 ms, then a token every 10 ms; all of it `scale` times."""
    tokens = [500 * scale, 510 * scale, 520 * scale]
    return Run((request(tokens, prompt_tokens=100),), (step(1, 0, 10),), use)


@pytest.fixture(scope="module")
def report() -> Report:
    ours = [single(1.0, USE), single(1.0, USE)]
    stock = [single(2.0), single(4.0)]
    return Report(
        ENVIRONMENT, (result(SINGLE, OURS, ours), result(SINGLE, STOCK, stock, first=ours))
    )


def test_json_is_one_object_with_the_environment_and_all_results(report: Report) -> None:
    found = json.loads(FORMATS["json"](report))
    assert {name: found[name] for name in ENVIRONMENT} == ENVIRONMENT
    ours, stock = found["results"]
    assert ours["workload"] == {
        "workload": "single", "streams": 1, "prompt_tokens": 100, "max_tokens": 3, "depth": 0
    }  # fmt: skip
    assert (ours["repetitions"], ours["warmup"], ours["seed"]) == (2, 1, 7)
    assert (ours["completed"], ours["failed"], ours["peak_concurrency"]) == (2, 0, 1)
    assert ours["engine"] == OURS and stock["engine"] == STOCK
    assert ours["latency"]["ttft_ms"]["p50"] == 500
    assert ours["figures"]["decode_tokens_per_s"]["median"] == pytest.approx(100)
    assert ours["kv"]["hit_rate"]["min"] == pytest.approx(0.995)
    assert stock["latency"]["queue_ms"] is None and stock["kv"] == {}


def test_the_speedup_is_told_with_the_slower_one(report: Report) -> None:
    ours, stock = report.results
    assert ours.speedup == {}
    for name in ("prefill_tokens_per_s", "decode_tokens_per_s", "ttft_ms", "tpot_ms"):
        found = stock.speedup[name]
        assert (found.median, found.min, found.max) == pytest.approx((3, 2, 4))


def test_json_lines_repeat_the_environment_in_each_result(report: Report) -> None:
    whole = json.loads(FORMATS["json"](report))
    lines = FORMATS["jsonl"](report).splitlines()
    assert [json.loads(line) for line in lines] == [
        {**ENVIRONMENT, **one} for one in whole["results"]
    ]


def test_csv_has_the_leaves_of_the_json(report: Report) -> None:
    whole = json.loads(FORMATS["json"](report))
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](report))))
    assert len(rows) == 2
    for row, one in zip(rows, whole["results"], strict=True):
        cells = {k: v for k, v in one.items() if k not in ("itl_histogram", "timeline")}
        leaves: dict[str, Any] = dict(flatten({**ENVIRONMENT, **cells}))
        for path, value in leaves.items():
            assert row[path] == ("" if value is None else str(value))
        assert all(row[path] == "" for path in row.keys() - leaves.keys())


def test_leaves_have_their_whole_path_and_a_list_is_one_leaf() -> None:
    tree = {"a": {"b": ["x", 2], "c": {"d": None}}, "e": {}}
    assert dict(flatten(tree)) == {"a.b": "x; 2", "a.c.d": None}


def test_markdown_says_what_was_measured_and_what_was_left_out(report: Report) -> None:
    text = FORMATS["md"](report)
    for part in ("orin-llm 9.9 (abc1234)", "tiny: Q4_1, 1.5 M", "Some CPU", "2 repetitions"):
        assert part in text
    assert "Excluded: loading, tokenization" in text
    assert "threads 2" in text


def table(text: str, column: str) -> list[dict[str, str]]:
    """The Markdown table that has a column of this name, by column."""
    for block in text.split("\n\n"):
        lines = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in block.strip().splitlines()
            if line.startswith("|")
        ]
        if lines and column in lines[0]:
            assert len({len(line) for line in lines}) == 1
            return [dict(zip(lines[0], row, strict=True)) for row in lines[2:]]
    raise AssertionError(f"no table has a column {column!r}")


def test_columns_of_numbers_are_to_the_right_and_no_others() -> None:
    cells = {"12": True, "20.8 ± 0.6": True, "31 %": True, "": True}
    cells |= {"127.0.0.1:8080": False, "16, 32, 64": False, "36.4.7": False, "text": False}
    for cell, is_number in cells.items():
        rule = bench_table("head", rows=[[cell]]).splitlines()[1]
        assert rule.endswith("-:|") == is_number, cell


def test_a_single_repetition_has_no_deviation() -> None:
    spread = Spread.of([200.0])
    assert (figure(spread, 1), figure(spread, 2)) == ("200.0", "200.0 ± 0.0")


def test_markdown_tables_hold_the_figures(report: Report) -> None:
    text = FORMATS["md"](report)
    ours, stock = table(text, "decode tok/s")
    assert ours["workload"] == stock["workload"] == "single p100 n3"
    assert (ours["engine"], stock["engine"]) == ("orin-llm all", "stock")
    assert ours["prefill tok/s"] == "200.0 ± 0.0"
    assert stock["decode tok/s"] == "37.5 ± 12.5"
    (speedup,) = table(text, "times as fast")
    assert speedup["times as fast"] == "orin-llm all over stock"
    assert speedup["TTFT"] == "2.828 (0.035 … 231.2) ≈"  # of 2 and 4: two pairs are few
    ttft = [row for row in table(text, "p99") if row["ms"] == "TTFT"]
    assert [row["mean"] for row in ttft] == ["500.0", "1500"]
    (kv,) = table(text, "page hits")
    assert (kv["fragmentation"], kv["page hits"]) == ("20.0 %", "99.50 %")
    assert kv["bytes / tokens' own"] == "1.250"


def test_numbers_are_aligned_to_the_right_and_columns_line_up(report: Report) -> None:
    head, rule, *rows = FORMATS["md"](report).split("\n\n")[2].splitlines()
    assert head.startswith("| workload ")
    assert {len(line) for line in [head, *rows]} == {len(rule)}
    cells = rule.strip("|").split("|")
    assert [cell.endswith(":") for cell in cells] == [False, False] + [True] * (len(cells) - 2)


def test_settings_that_differ_are_told_by_row_and_others_once(report: Report) -> None:
    more = result(SINGLE, {**OURS, "threads": 4}, [single(1.0)])
    text = FORMATS["md"](Report(ENVIRONMENT, (report.results[0], more)))
    assert [row["engine"] for row in table(text, "decode tok/s")] == [
        "orin-llm all t2",
        "orin-llm all t4",
    ]
    assert "chunk_size 512" in text and "threads" not in text


def test_figures_of_one_workload_have_a_table_of_their_own() -> None:
    scenario = SharedPrefix(2, 8, Lengths(1, 1), Lengths(1, 1))
    run = run_of(request([100], role="first"), request([120], submitted_ms=110, role="other"))
    text = FORMATS["md"](Report(ENVIRONMENT, (result(scenario, OURS, [run]),)))
    found = {row["figure"]: row["median"] for row in table(text, "figure")}
    assert found["others_over_first"] == "0.100"
    assert "times as fast" not in text and "page hits" not in text


def test_reports_of_one_environment_make_one(report: Report) -> None:
    ours, stock = (Report(ENVIRONMENT, (one,)) for one in report.results)
    assert Report.joined([ours, stock]) == report


def test_markdown_leaves_open_what_no_step_told() -> None:
    quick = replace(step(1, 0, 10), kv_tokens=0, kv_bytes_used=0)
    run = replace(single(1.0, USE), steps=(quick,))
    (kv,) = table(FORMATS["md"](Report(ENVIRONMENT, (result(SINGLE, OURS, [run]),))), "page hits")
    assert (kv["KV used"], kv["fragmentation"], kv["page hits"]) == ("", "", "99.50 %")
    all_new = replace(USE, lookups=7, misses=7)  # as where requests end in their only step
    run = replace(run, kv=all_new)
    (kv,) = table(FORMATS["md"](Report(ENVIRONMENT, (result(SINGLE, OURS, [run]),))), "page hits")
    assert (kv["KV used"], kv["page hits"]) == ("", "")


def test_one_repetition_is_one() -> None:
    text = FORMATS["md"](Report(ENVIRONMENT, (result(SINGLE, OURS, [single(1.0)]),)))
    assert "; 1 repetition after 1 to warm up" in text


def test_failures_are_counted_and_told() -> None:
    run = run_of(request([1, 2]), failed("out of luck"), failed("out of luck"))
    found = result(SINGLE, OURS, [run, run])
    assert (found.completed, found.failed, found.errors) == (2, 4, ("out of luck",))
    text = FORMATS["md"](Report(ENVIRONMENT, (found,)))
    assert "failed: 4 of single p100 n3: out of luck" in text


def test_without_one_completed_request_there_is_still_a_report() -> None:
    found = result(SINGLE, OURS, [run_of(failed())])
    for render in FORMATS.values():
        assert render(Report(ENVIRONMENT, (found,)))


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True
    )


def test_the_commit_is_that_of_the_repository_that_holds_the_package(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert commit(package) is None
    git(tmp_path, "init", "-q")
    (tmp_path / "other").write_text("")
    git(tmp_path, "add", "other")
    git(tmp_path, "commit", "-q", "-m", "x")
    assert commit(package) is None  # another project's repository
    git(tmp_path, "add", "package")
    git(tmp_path, "commit", "-q", "-m", "y")
    found = commit(package)
    assert found is not None and not found.endswith("-dirty") and len(found) >= 7
    (package / "__init__.py").write_text("# changed")
    assert commit(package) == f"{found}-dirty"


def test_failures_are_counted_by_their_kind() -> None:
    kinds = ["timeout", "HTTP 429", "timeout", ""]
    failures = [replace(failed(f"{kind}: no"), error_kind=kind) for kind in kinds]
    run = run_of(request([10, 20]), *failures)
    found = result(SINGLE, OURS, [run])
    assert (found.completed, found.failed) == (1, 4)
    assert found.failures == {"timeout": 2, "HTTP 429": 1}
