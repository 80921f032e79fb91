"""The requests that each workload makes, and the figures that only it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_support import failed, request, run_of, step
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.bench.interference import Interference
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.scenarios import DEFAULTS, scenarios
from orin_llm.bench.shared_prefix import SharedPrefix
from orin_llm.bench.streams import Streams, Traced
from orin_llm.bench.trace import TracedRequest
from orin_llm.bench.workload import Prompts, Scenario, Submission
from orin_llm.errors import OrinError, UsageError

VOCAB = 100
lengths = st.tuples(st.integers(1, 30), st.integers(0, 30)).map(
    lambda pair: Lengths(pair[0], sum(pair))
)
streams = st.builds(Streams, st.integers(1, 9), lengths, lengths, st.integers(0, 40))
long_ones = st.builds(
    Interference, st.integers(1, 9), lengths, lengths, st.integers(1, 99), st.integers(1, 9)
)
shared = st.builds(SharedPrefix, st.integers(2, 9), st.integers(1, 50), lengths, lengths)
traced = st.builds(
    Traced,
    st.just(Path("a/t.csv")),
    st.lists(
        st.builds(TracedRequest, st.floats(0, 9), st.integers(1, 30), st.integers(1, 30)),
        min_size=1,
        max_size=9,
    ).map(tuple),
    st.integers(1, 9),
)
any_scenario = st.one_of(streams, long_ones, shared, traced)
seeds = st.integers(0, 1000)


def submissions(scenario: Scenario, seed: int) -> list[Submission]:
    workload = scenario.build(VOCAB, seed)
    return [submission for wave in workload.waves for submission in wave.submissions]


@given(any_scenario, seeds)
def test_a_workload_is_the_same_for_the_same_seed(scenario: Scenario, seed: int) -> None:
    assert scenario.build(VOCAB, seed) == scenario.build(VOCAB, seed)


@given(any_scenario, seeds)
def test_every_request_fits_what_the_scenario_says(scenario: Scenario, seed: int) -> None:
    found = submissions(scenario, seed)
    assert max(len(one.prompt) + one.max_tokens for one in found) <= scenario.n_ctx
    assert all(0 <= token < VOCAB for one in found for token in one.prompt)
    assert next(iter(scenario.settings)) == "workload"


@given(st.one_of(streams, long_ones, traced), seeds)
def test_no_two_requests_begin_alike(scenario: Scenario, seed: int) -> None:
    first_tokens = [one.prompt[0] for one in submissions(scenario, seed)]
    assert len(set(first_tokens)) == len(first_tokens)


@given(streams, seeds)
def test_streams_come_at_once_with_lengths_in_their_range(scenario: Streams, seed: int) -> None:
    workload = scenario.build(VOCAB, seed)
    (wave,) = workload.waves
    assert len(wave.submissions) == scenario.streams == scenario.n_seq
    assert workload.depth == scenario.depth
    for one in wave.submissions:
        own = len(one.prompt) - scenario.depth
        assert scenario.prompt.low <= own <= scenario.prompt.high
        assert scenario.answer.low <= one.max_tokens <= scenario.answer.high
        assert one.arrival_ms == 0


@given(traced, seeds)
def test_a_trace_is_followed(scenario: Traced, seed: int) -> None:
    found = submissions(scenario, seed)
    assert [(s.arrival_ms, len(s.prompt), s.max_tokens) for s in found] == [
        (r.arrival_ms, r.prompt_tokens, r.max_tokens) for r in scenario.requests
    ]


@given(shared, seeds)
def test_requests_of_a_shared_prefix_share_just_that(scenario: SharedPrefix, seed: int) -> None:
    found = submissions(scenario, seed)
    system = found[0].prompt[: scenario.system_tokens]
    assert [one.role for one in found] == ["first"] + ["other"] * (scenario.requests - 1)
    assert all(one.prompt[: len(system)] == system for one in found)
    own_first = [one.prompt[len(system)] for one in found]
    assert len(set(own_first)) == len(found)
    workload = scenario.build(VOCAB, seed)
    assert [wave.after for wave in workload.waves] == ["finished"] * len(found)


@given(long_ones, seeds)
def test_the_long_prompt_comes_when_all_streams_decode(scenario: Interference, seed: int) -> None:
    first, second = scenario.build(VOCAB, seed).waves
    assert [one.role for one in first.submissions] == ["stream"] * scenario.streams
    assert second.after == "decoding"
    assert [(one.role, len(one.prompt)) for one in second.submissions] == [
        ("long", scenario.long_prompt),
        ("short", scenario.short_prompt),
    ]


def test_another_seed_makes_other_prompts() -> None:
    assert Prompts(VOCAB, 1).draw(20) != Prompts(VOCAB, 2).draw(20)


def test_a_used_up_vocabulary_begins_again() -> None:
    prompts = Prompts(3, 0)
    first_tokens = [prompts.draw(1)[0] for _ in range(6)]
    assert sorted(first_tokens[:3]) == [0, 1, 2]
    assert first_tokens[3:] == first_tokens[:3]


# Interference

INTERFERENCE = Interference(2, Lengths(8, 8), Lengths(4, 4), long_prompt=200, short_prompt=5)
CHUNKS = [step(1, 90, 9, prompt=100), step(2, 101, 20, prompt=100), step(3, 121, 40, prompt=100)]
STREAMS = [
    request([50, 95, 121, 161, 171]),  # 26 and 40 while the long one is read; 45 before
    request([60, 100, 130, 150, 300]),  # 30; 150 begins before and ends after it
]
LONG = request([161], submitted_ms=100, role="long")
SHORT = request([130], submitted_ms=100, role="short")


def test_the_cost_of_a_long_prompt_is_told_in_chunk_steps() -> None:
    run = run_of(*STREAMS, LONG, SHORT, steps=CHUNKS)
    found = INTERFERENCE.figures(run, 100)
    assert found["chunk_step_ms"] == 30  # the first step was before the long prompt
    assert found["worst_itl_ms"] == 150
    assert found["worst_itl_in_chunk_steps"] == 5
    assert found["short_ttft_ms"] == 30
    assert found["short_ttft_in_chunk_steps"] == 1
    assert found["long_ttft_ms"] == 61


def test_gaps_before_and_after_the_long_prompt_do_not_count() -> None:
    calm = request([0, 99, 110, 120, 162, 900])
    found = INTERFERENCE.figures(run_of(calm, LONG, SHORT, steps=CHUNKS), 100)
    assert found["worst_itl_ms"] == 42


def test_a_run_that_cannot_tell_says_what_to_choose() -> None:
    early = request([50, 60, 160])
    with pytest.raises(UsageError, match="longer answers"):
        INTERFERENCE.figures(run_of(early, LONG, SHORT, steps=CHUNKS), 100)
    with pytest.raises(UsageError, match="no step of the long prompt had 101 prompt tokens"):
        INTERFERENCE.figures(run_of(*STREAMS, LONG, SHORT, steps=CHUNKS), 101)
    with pytest.raises(OrinError, match="a request failed: lost"):
        INTERFERENCE.figures(run_of(*STREAMS, LONG, failed("lost"), steps=CHUNKS), 100)


# Shared prefix


def test_the_others_are_told_beside_the_first() -> None:
    run = run_of(
        request([100], role="first"),
        request([130], submitted_ms=110, role="other", cached_tokens=8),
        request([150], submitted_ms=140, role="other", cached_tokens=6),
    )
    found = SharedPrefix(3, 8, Lengths(1, 1), Lengths(1, 1)).figures(run, 100)
    assert (found["first_ttft_ms"], found["others_ttft_ms"]) == (100, 15)
    assert found["others_over_first"] == 0.15
    assert found["others_cached_tokens"] == 7


# From flags


def test_lists_make_every_combination() -> None:
    found = scenarios("concurrent", {"-p": "8,16..32", "-n": "4,5", "-d": "0", "-np": "2"})
    assert [scenario.label for scenario in found] == [
        "concurrent ×2 p8 n4",
        "concurrent ×2 p8 n5",
        "concurrent ×2 p16..32 n4",
        "concurrent ×2 p16..32 n5",
    ]


@pytest.mark.parametrize("workload", [name for name in DEFAULTS if "-n" in DEFAULTS[name]])
def test_a_length_is_a_number_for_machines_and_a_range_is_text(workload: str) -> None:
    (scenario,) = scenarios(workload, {"-p": "48", "-n": "16..32"})
    assert scenario.settings["prompt_tokens"] == 48
    assert scenario.settings["max_tokens"] == "16..32"


@pytest.mark.parametrize("workload", DEFAULTS)
def test_flags_that_shorten_a_workload_are_its_own(workload: str) -> None:
    (scenario,) = scenarios(workload, {})
    for flag in scenario.length_flags.split(", "):
        (longer,) = scenarios(workload, {flag: "5000"})
        assert longer.n_ctx > 5000 - 1


def test_a_depth_shows_in_the_label() -> None:
    found = scenarios("single", {"-d": "0,64"})
    assert [scenario.label for scenario in found] == ["single p512 n128", "single p512 n128 d64"]


@pytest.mark.parametrize("workload", DEFAULTS)
def test_a_workload_takes_just_its_own_flags(workload: str) -> None:
    (scenario,) = scenarios(workload, {})
    assert scenario.label.startswith(workload)
    known = {flag for flags in DEFAULTS.values() for flag in flags}
    for flag in known:
        if flag in DEFAULTS[workload]:
            assert scenarios(workload, {flag: "7"})
        else:
            with pytest.raises(UsageError, match=f"^{flag} has no place in {workload}"):
                scenarios(workload, {flag: "7"})


def test_a_trace_replaces_the_lengths(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_ms,prompt_tokens,max_tokens\n0,5,6\n")
    found = scenarios("concurrent", {"-np": "1,2"}, path)
    assert [scenario.label for scenario in found] == ["trace t.csv ×1", "trace t.csv ×2"]
    with pytest.raises(UsageError, match="-p has no place in concurrent --trace"):
        scenarios("concurrent", {"-p": "5"}, path)
    with pytest.raises(UsageError, match="--trace has no place in single"):
        scenarios("single", {}, path)


@pytest.mark.parametrize(
    ("workload", "flags", "complaint"),
    [
        ("double", {}, "no workload 'double': choose one of single, concurrent"),
        ("single", {"-p": "0"}, "-p has 0: expected 1"),
        ("single", {"-n": "0"}, "-n has 0: expected 1"),
        ("concurrent", {"-np": "0"}, "-np has 0"),
        ("shared-prefix", {"-np": "1"}, "-np has 1: expected 2"),
        ("interference", {"--long-prompt": "x"}, "--long-prompt has 'x'"),
        ("shared-prefix", {"--system-tokens": "0"}, "--system-tokens has 0"),
    ],
)
def test_what_cannot_be_is_refused(workload: str, flags: dict[str, str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        scenarios(workload, flags)
