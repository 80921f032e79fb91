"""The numbers of the check: how each is worked out, and how the report shows it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from gpu_check_results import PREFILL, entry, pair, steps
from hypothesis import given
from hypothesis import strategies as st

from checking.steps import StepFailed
from gpu_check import checks
from gpu_check.checks import read_junit
from gpu_check.figures import CUBLAS, OURS, PAGES, pairs, path_choices
from gpu_check.greedy import TIE, compare
from gpu_check.growth import growth_of
from gpu_check.mps import find_percentage
from gpu_check.perplexity import figures as figures_of_comparison
from gpu_check.report import markdown, summary
from gpu_check.steps import Context
from gpu_check.trace import idle_between, read_trace


def test_growth_compares_the_last_gaps_with_the_first() -> None:
    found = growth_of([2.0] * 31 + [5.0] * 449 + [2.2] * 31)
    assert found["tpot_first_ms"] == pytest.approx(2.0)
    assert found["tpot_last_ms"] == pytest.approx(2.2)
    assert found["growth"] == pytest.approx(0.1)


@given(st.floats(0.01, 100), st.integers(62, 600))
def test_even_gaps_neither_grow_nor_deviate(gap_ms: float, count: int) -> None:
    found = growth_of([gap_ms] * count)
    assert found["growth"] == pytest.approx(0, abs=1e-9)
    assert found["deviation"] == pytest.approx(0, abs=1e-6)


def test_deviation_is_relative_to_the_mean() -> None:
    assert growth_of([9.0, 11.0] * 50)["deviation"] == pytest.approx(0.1)


def texts(*ids: list[int], gap: float = 1.0) -> dict[str, Any]:
    likeliest = [0.0, -gap]
    written = [{"ids": one, "logprobs": [likeliest] * len(one)} for one in ids]
    return {"device": "x", "texts": written}


def test_equal_texts_agree() -> None:
    found = compare(texts([1, 2], [3, 4]), texts([1, 2], [3, 4]))
    assert (found["equal"], found["prompts"], found["agrees"]) == (2, 2, True)


@pytest.mark.parametrize(("gap", "agrees"), [(TIE, True), (TIE * 1.1, False)])
def test_texts_may_only_part_where_two_tokens_are_as_likely(gap: float, agrees: bool) -> None:
    found = compare(texts([1, 2, 3], [5, 6, 7], gap=gap), texts([1, 2, 3], [5, 9, 9]))
    assert found["equal"] == 1 and found["agrees"] is agrees
    assert found["differences"] == [{"prompt": 1, "place": 1, "gap": gap, "tie": agrees}]


def in_pairs(percent: int) -> int:
    """As seen on a GPU of 132 multiprocessors: 12 % leave 14 of them, 13 % 16, 14 % 18."""
    return 132 * percent // 200 * 2


def test_the_percentage_is_computed_and_then_asked_of_the_device() -> None:
    assert [in_pairs(percent) for percent in (12, 13, 14)] == [14, 16, 18]
    asked = []

    def ask(percent: int) -> int:
        asked.append(percent)
        return in_pairs(percent)

    assert find_percentage(132, ask) == (13, 16)
    assert asked == [13]


def test_the_nearest_is_taken_where_none_leaves_sixteen() -> None:
    percent, left = find_percentage(108, lambda percent: 108 * percent // 400 * 4 + 2)
    assert left in (14, 18) and 10 <= percent <= 20


@pytest.mark.parametrize(
    ("whole", "left", "said"),
    [(16, 16, "not more than the board"), (14, 14, "14 multiprocessors"), (80, 80, "confines")],
)
def test_a_gpu_that_cannot_be_confined_is_no_proxy(whole: int, left: int, said: str) -> None:
    with pytest.raises(StepFailed, match=said):
        find_percentage(whole, lambda percent: left)


def test_the_gpu_is_idle_where_neither_a_graph_nor_anything_else_runs() -> None:
    graphs = [(0, 10), (20, 30), (35, 40)]
    others = [(2, 5), (12, 14), (13, 16), (31, 35)]
    assert idle_between(graphs, others) == [6, 1]


SPANS = st.lists(st.integers(0, 300), min_size=4, max_size=24, unique=True).map(
    lambda ends: list(zip(*[iter(sorted(ends))] * 2, strict=False))
)


@given(SPANS, st.lists(st.tuples(st.integers(0, 300), st.integers(0, 20)), max_size=12))
def test_idle_time_is_that_of_a_plain_count(
    graphs: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    spans = sorted((start, start + length) for start, length in others)
    busy = {moment for start, stop in spans for moment in range(start, stop)}
    plain = [
        sum(moment not in busy for moment in range(end, begin))
        for (_, end), (begin, _) in pairwise(graphs)
    ]
    assert idle_between(graphs, spans) == plain


def trace_file(folder: Path, *lines: str, end: str = "dropped 0") -> Path:
    file = folder / "trace"
    file.write_text("\n".join([*lines, end]) + "\n")
    return file


def test_a_trace_tells_idle_time_and_bytes_to_the_host(tmp_path: Path) -> None:
    graphs = ["graph 0 1000", "graph 9000 9900", "graph 5000 6000"]
    copies = ["copy 1000 2000 64 1", "copy 6000 6500 4 2", "copy 6600 6700 8 2"]
    found = read_trace(trace_file(tmp_path, *graphs, *copies))
    assert found == {"idle_us": pytest.approx(2.7), "graphs": 3, "to_host_bytes": 12}


def test_without_graphs_idle_time_is_not_measured(tmp_path: Path) -> None:
    assert read_trace(trace_file(tmp_path, "kernel 1 2")) == {
        "idle_us": None, "graphs": 0, "to_host_bytes": 0
    }  # fmt: skip


@pytest.mark.parametrize(
    "end", ["dropped 3", "failed CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "", "graph 1"]
)
def test_a_trace_that_is_not_whole_is_no_measurement(tmp_path: Path, end: str) -> None:
    with pytest.raises(StepFailed, match="unmeasured: the trace is not whole"):
        read_trace(trace_file(tmp_path, "graph 1 2", end=end))


def test_counts_of_tests_are_read_from_their_report(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(
        '<testsuites><testsuite><testcase classname="a" name="one"/>'
        '<testcase classname="a" name="two"><failure/></testcase>'
        '<testcase classname="a" name="three"><error/></testcase>'
        '<testcase classname="a" name="four"><skipped/></testcase></testsuite></testsuites>'
    )
    assert read_junit(tmp_path / "junit.xml") == {
        "tests": 4, "failed": 2, "skipped": 1, "failures": ["a::two", "a::three"]
    }  # fmt: skip


@pytest.mark.parametrize(("pulled", "left_out"), [(None, ["not smollm2"]), (Path("m"), [])])
def test_engines_are_tested_without_the_default_model_where_it_is_not(
    monkeypatch: pytest.MonkeyPatch, pulled: Path | None, left_out: list[str]
) -> None:
    given: list[str] = []

    def run(context: Context, *arguments: str, environ: dict[str, str]) -> dict[str, Any]:
        given.extend(arguments)
        assert environ == {"ORIN_TEST_GPU": "real"}
        return {"tests": 1}

    monkeypatch.setattr(checks, "pytest", run)
    monkeypatch.setattr(checks, "default_model", lambda: pulled)
    found = checks.engine_tests(Context(Path()))
    assert found == {"tests": 1, "left_out": left_out}
    assert given == ["tests/gpu", *(["-k"] if left_out else []), *left_out]


def test_perplexities_are_those_of_a_comparison() -> None:
    found = figures_of_comparison(
        {
            "scored_tokens": 254,
            "model": {"ppl": 19.98},
            "reference": {"ppl": 20.0},
            "ppl_ratio": 0.999,
            "ppl_ratio_uncertainty": 0.0004,
            "kl_divergence": {"mean": 0.003},
        }
    )
    assert (found["on"], found["off"], found["tokens"]) == (19.98, 20.0, 254)
    assert found["difference"] == pytest.approx(-0.001) and found["deviation"] == 0.0004


def test_a_benchmark_is_a_pair_of_medians_and_the_median_ratio() -> None:
    (found,) = pairs(steps(1.25))
    assert (found.on, found.off, found.ratio) == (110.0, 88.0, 1.25)
    assert len(list(pairs(steps(1.25), "proxy."))) == 1


def test_pairs_are_told_apart_by_what_differs() -> None:
    both = pair(9.0, 1.5) + pair(5.0, 1.2, kv_type="q8_0")
    found = {
        "quantized.8b": entry(*both),
        "chunks.8b": entry(*pair(1.0, 1.0, PREFILL)),
        "matrices.8b": entry(*pair(3.0, 2.0)),
    }
    assert [p.label for p in pairs(found)] == [
        "p16", "p16 q8_0 KV", "p16 chunks of 128", "p16 prefill", "p16 decode"
    ]  # fmt: skip
    assert next(p for p in pairs(found) if p.label == "p16 prefill").ratio is None


@pytest.mark.parametrize(
    ("cublas", "pages", "choices"),
    [
        ((1, 5, 9), (9, 9, 1), {"product_most": 511, "cublas_tokens": 512, "gather_tokens": 2048}),
        ((9, 1, 3), (1, 1, 1), {"gather_tokens": 128}),
        ((9, 9, 9), (9, 9, 9), {"product_most": 127, "cublas_tokens": 128, "gather_tokens": 65536}),
    ],
)
def test_a_way_to_compute_prompts_is_taken_from_where_it_always_wins(
    cublas: tuple[float, ...], pages: tuple[float, ...], choices: dict[str, int]
) -> None:
    ours = (4, 4, 4)
    results = [
        {**one, "path": path}
        for path, speeds in ((OURS, ours), (CUBLAS, cublas), (PAGES, pages))
        for prompt, speed in zip((128, 512, 2048), speeds, strict=True)
        for one in pair(speed, 1.0, PREFILL, prompt_tokens=prompt)
    ]
    assert path_choices({"proxy.paths.8b": entry(*results)}, "proxy.", "8b") == choices
    assert path_choices({}, "", "8b") == {}


def test_the_tables_have_what_was_measured_and_what_was_not() -> None:
    data: dict[str, Any] = {
        "of": {"commit": "abc"},
        "calls": [{"command": "scripts/gpu_check.sh --minutes 9"}],
        "proxy": {"percentage": 13, "multiprocessors": 16, "of": 132},
        "steps": {
            "environment": {
                "status": "done",
                "result": {"gpu": {"name": "NVIDIA Test"}, "date": "2026-01-02T03:04"},
            },
            **steps(1.25),
            "kernels": {"status": "failed", "error": "1 of 3 tests failed\nmore",
                        "result": {"tests": 3, "failed": 1, "skipped": 0}},
        },
    }  # fmt: skip
    text = markdown(data)
    for fact in (
        "### NVIDIA Test, 2026-01-02", "commit abc", "`scripts/gpu_check.sh --minutes 9`",
        "| 8b decode: p16 | 110.0 | 88.0 | 1.250 | 110.0 | 88.0 | 1.250 |",
        "Host part of a step by the engine's log (median): 10 µs at 8b decode.",
        "MPS at 13 %, 16 of 132 multiprocessors", "| kernels | 2 passed, 1 failed, 0 skipped |",
        "- kernels: failed: 1 of 3 tests failed\n", "| ≥ 1.7 × | **no** |", "not measured",
    ):  # fmt: skip
        assert fact in text, fact
    assert "kernels" in summary(data) and "1 of 3 tests failed" in summary(data)
