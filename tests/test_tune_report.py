"""The report of a tuning run: its tables, facts and pictures."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from simulated_board import MAXN, SPACE, SimulatedBoard

from orin_llm.gguf.header import Header, read_model_header
from orin_llm.profiles.key import ProfileKey
from orin_llm.profiles.profile import Profile
from orin_llm.profiles.store import ProfileStore
from orin_llm.tune.goal import Constraints, Goal
from orin_llm.tune.knobs import Candidate, Knob, Space
from orin_llm.tune.measurement import Load, Measurement, Sample
from orin_llm.tune.outcome import Decision, Outcome, Standing, Trial, Verdict
from orin_llm.tune.page_kernels import PageKernels
from orin_llm.tune.pairs import Ratio
from orin_llm.tune.report import About, report
from orin_llm.tune.report_facts import RopeTable, quantization_lines, rope_tables
from orin_llm.tune.report_keep import deserves_profile
from orin_llm.tune.report_plots import save_pictures
from orin_llm.tune.report_profile import profile_of
from orin_llm.tune.report_tables import chunk_table, cut, page_table, result_table
from orin_llm.tune.search import Tuner

GRID = Space((Knob("chunk_size", (128, 512, 1024), 512), Knob("page_size", (16, 64), 16)))


def candidate(chunk: int, page: int) -> Candidate:
    return Candidate.of({"chunk_size": chunk, "page_size": page})


def standing(chunk: int, page: int, ttft_ms: float, cost: float, repetitions: int = 2) -> Standing:
    samples = (Sample(ttft_ms={512: ttft_ms}, tpot_ms=20.0),) * repetitions
    verdict = Verdict("prefill", "launch", "EMC 20 %, GPU 30 %", f"chunks above {chunk}")
    return Standing(
        candidate(chunk, page),
        Measurement(samples, prefill=Load(gpu_percent=30.0)),
        Ratio(cost, cost - 0.01, cost + 0.01),
        (),
        (verdict,),
        1,
    )


def outcome_of(best: Standing, default: Standing, *others: Standing) -> Outcome:
    trials = (Trial(1, "first look", 1, candidate(128, 64), "pruned", note="not promising"),)
    return Outcome(
        Goal("ttft"), GRID, "better", "faster", best, default, others, (), trials, 90.0, 0.02
    )


BEST = standing(1024, 64, 80.0, 0.8)
DEFAULT = standing(512, 16, 100.0, 1.0)
OUTCOME = outcome_of(BEST, DEFAULT, standing(512, 64, 95.0, 0.95), standing(128, 16, 200.0, 2.0))


@pytest.fixture
def header(tiny_model: Path) -> Header:
    return read_model_header(tiny_model)


@pytest.fixture
def about(header: Header) -> About:
    return About(
        "tiny",
        "tiny.gguf",
        header,
        0,
        {"board": "AGX", "mode": None},
        {"Tune again": "orin-llm tune tiny --goal ttft"},
    )


def rows(table: str) -> list[list[str]]:
    return [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_of_each_chunk_size_the_candidate_most_like_the_best_is_shown() -> None:
    assert [s.candidate for s in cut(OUTCOME, "chunk_size")] == [
        candidate(128, 16), candidate(512, 64), candidate(1024, 64),
    ]  # fmt: skip


def test_the_chunk_table_has_ttft_load_and_what_else_differs() -> None:
    assert rows(chunk_table(OUTCOME)) == [
        ["128", "200.0", "30", "–", "–", "2", "page_size 16"],
        ["512", "95.0", "30", "–", "–", "2", ""],
        ["1024", "80.0", "30", "–", "–", "2", ""],
    ]


def test_what_was_not_measured_is_a_dash_in_the_page_table() -> None:
    assert rows(page_table(OUTCOME, {})) == [
        ["16", "–", "–", "–", "–", "–", "20.0", "2", "chunk_size 512"],
        ["64", "–", "–", "–", "–", "–", "20.0", "2", ""],
    ]


def test_the_page_table_has_the_times_of_the_kernels_alone() -> None:
    times = {16: PageKernels(120.5, 0.026), 64: PageKernels(99, 0.3)}
    shown = rows(page_table(OUTCOME, times))
    assert [row[:3] for row in shown] == [["16", "120.500", "0.026"], ["64", "99.000", "0.300"]]


def test_the_result_is_beside_the_default() -> None:
    assert rows(result_table(OUTCOME)) == [
        ["TTFT ms, 512 tokens", "100.0", "80.0", "0.800"],
        ["TPOT ms", "20.00", "20.00", "1.000"],
        ["prefill GPU %", "30", "30", "1.000"],
    ]


def test_a_space_without_chunks_and_pages_has_no_such_tables(about: About) -> None:
    only = Candidate.of({"threads": 2})
    alone = replace(BEST, candidate=only)
    outcome = replace(
        OUTCOME,
        space=Space((Knob("threads", (1, 2), 2),)),
        best=alone,
        default=alone,
        runners_up=(),
    )
    text = report(outcome, about)
    assert "## TTFT by chunk size" not in text and "## Page size" not in text


@pytest.mark.parametrize(
    ("length", "channels", "expected"),
    [(8192, 128, 8192 * 64 * 2 * 4), (131072, 64, 33554432), (16, 2, 128)],
)
def test_a_rope_table_holds_a_cosine_and_a_sine_for_each_pair_of_channels(
    length: int, channels: int, expected: int
) -> None:
    assert RopeTable(length, channels).bytes == expected


def test_rope_tables_are_of_the_context_in_use_and_of_the_models_own(header: Header) -> None:
    own = int(header.metadata["llama.context_length"])
    channels = int(header.metadata["llama.rope.dimension_count"])
    assert rope_tables(header, 16) == [RopeTable(16, channels), RopeTable(own, channels)]
    assert rope_tables(header, 0) == [RopeTable(min(own, 8192), channels)]


def test_quantization_is_told_by_bits_and_types(header: Header) -> None:
    text = "\n".join(quantization_lines(header, "tiny.gguf", ["f16", "q8_0"]))
    elements = sum(math.prod(t.shape) for t in header.tensors)
    bits = 8 * sum(t.nbytes for t in header.tensors) / elements
    assert f"{bits:.2f} bits a weight" in text
    assert "| f16" in text and "| q8_0" in text


def test_the_report_has_every_part_that_the_outcome_gives(about: About) -> None:
    text = report(OUTCOME, replace(about, profile="tiny-ttft", warnings=["power mode: 30W"]))
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert headings == [
        "Result", "Settings", "TTFT by chunk size", "Page size", "RoPE table", "Quantization",
        "What limits it", "Everything that was measured", "To repeat it",
    ]  # fmt: skip
    for part in (
        "profile `tiny-ttft`",
        "**Measured in spite of:** power mode: 30W",
        "0.800 (0.790 … 0.810)",
        "prefill is bound by launch (EMC 20 %, GPU 30 %): chunks above 1024",
        "1 × pruned: not promising",
        "    orin-llm tune tiny --goal ttft",
    ):
        assert part in text
    assert "None" not in text


@pytest.mark.parametrize("max_tpot_ms", [None, 1.0])
def test_whatever_a_search_ends_with_can_be_told(
    about: About, tmp_path: Path, max_tpot_ms: float | None
) -> None:
    goal = Goal("balanced", Constraints(max_tpot_ms=max_tpot_ms))
    tuner = Tuner(SPACE, goal, SimulatedBoard(MAXN, noise=0.02))
    outcomes = [tuner.outcome()]
    for number, _ in enumerate(tuner.run()):
        if number == 10:
            outcomes.append(tuner.outcome())
    outcomes.append(tuner.outcome())
    for outcome in outcomes:
        assert report(outcome, about).startswith("# tiny, tuned for balanced\n")
    assert outcomes[-1].decision == ("infeasible" if max_tpot_ms else "better")
    assert outcomes[0].decision == outcomes[1].decision == "unfinished" or max_tpot_ms


@pytest.mark.parametrize(
    ("decision", "known", "expected"),
    [
        ("better", None, True),
        ("noise", "better", True),
        ("default", "unfinished", True),
        ("unfinished", None, True),
        ("unfinished", "unfinished", True),
        ("unfinished", "noise", False),
        ("infeasible", None, False),
    ],
)
def test_a_search_that_did_not_end_replaces_no_profile_of_one_that_did(
    tmp_path: Path, decision: Decision, known: str | None, expected: bool
) -> None:
    store = ProfileStore(tmp_path, tmp_path / "shipped")
    if known is not None:
        key = ProfileKey(None, None, None, None, None, None, None, None, "m", "0" * 64)
        store.save("m-ttft", Profile(key, {}, evidence={"decision": known}))
    outcome = replace(OUTCOME, decision=decision)
    assert deserves_profile(outcome, store, "m-ttft") is expected


def test_evidence_has_what_was_measured_and_nothing_else() -> None:
    key = ProfileKey(None, None, None, None, None, None, None, None, "m", "0" * 64)
    profile = profile_of(OUTCOME, key, {"threads": 4}, {"warnings": []})
    assert profile.values == {"threads": 4, "chunk_size": 1024, "page_size": 64}
    assert profile.evidence["best"] == {
        "ttft_ms": {"512": 80.0}, "tpot_ms": 20.0, "prefill": {"gpu_percent": 30.0},
        "repetitions": 2,
    }  # fmt: skip
    assert "warnings" not in profile.evidence


def test_pictures_are_written_where_there_is_something_to_show(tmp_path: Path) -> None:
    names = save_pictures(OUTCOME, tmp_path)
    assert names == {"chunk": "chunk.png"}
    assert (tmp_path / "chunk.png").read_bytes().startswith(b"\x89PNG")
