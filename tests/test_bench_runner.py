"""Workloads on a real engine: what is written down is what happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from orin_llm.bench.campaign import Campaign, measure
from orin_llm.bench.interference import Interference
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.metrics import kv_figures
from orin_llm.bench.records import Run
from orin_llm.bench.result import Report
from orin_llm.bench.runner import EngineRunner, hooks_text
from orin_llm.bench.shared_prefix import SharedPrefix
from orin_llm.bench.streams import Streams, Traced
from orin_llm.bench.trace import TracedRequest
from orin_llm.bench.turns import alternate
from orin_llm.bench.workload import Submission, Wave, Workload
from orin_llm.engine import Engine, EngineConfig, Hooks, Request, SamplingParams
from orin_llm.errors import DeviceUnavailable, PromptTooLong, UsageError

CHUNK = 32


@pytest.fixture(scope="module")
def runner(smollm2: Path) -> Iterator[EngineRunner]:
    config = EngineConfig(n_ctx=256, chunk_size=CHUNK, threads=1, max_batch=6)
    with Engine(smollm2, config) as engine:
        yield EngineRunner(engine)


def build(
    runner: EngineRunner, scenario: Streams | Traced | Interference | SharedPrefix
) -> Workload:
    return scenario.build(runner.engine.n_vocab, seed=3)


def test_every_request_has_exactly_the_tokens_that_were_asked_for(runner: EngineRunner) -> None:
    workload = build(runner, Streams(3, Lengths(10, 60), Lengths(1, 9)))
    run = runner.run(workload)
    wanted = [(len(s.prompt), s.max_tokens) for s in workload.waves[0].submissions]
    assert [(r.prompt_tokens, r.output_tokens) for r in run.requests] == wanted
    for record in run.requests:
        assert record.error == "" and record.cached_tokens == 0
        assert record.submitted_ms < record.token_ms[0]
        assert list(record.token_ms) == sorted(record.token_ms)
        assert record.finished_ms == pytest.approx(record.token_ms[-1])
        assert record.queue_ms is not None and 0 <= record.queue_ms < record.e2el_ms


def test_an_end_token_does_not_end_an_answer(runner: EngineRunner) -> None:
    engine = runner.engine
    prompt = engine.tokenize(
        "<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\n", parse_special=True
    )
    answer = engine.complete(Request(prompt, SamplingParams(temperature=0), max_tokens=40))
    for _ in answer:
        pass
    assert answer.result.finish_reason == "stop"
    (record,) = runner.run(Workload((Wave((Submission("stream", prompt, 40),)),))).requests
    assert record.output_tokens == 40


def test_the_steps_of_a_run_are_its_own_and_account_for_its_tokens(runner: EngineRunner) -> None:
    workload = build(runner, Streams(2, Lengths(40, 40), Lengths(5, 5)))
    for run in (runner.run(workload), runner.run(workload)):
        assert sum(step.n_prompt_tokens for step in run.steps) == 80
        # The first token of an answer is drawn after the prompt, the others after one of their own.
        assert sum(step.n_decode_tokens for step in run.steps) == 8
        numbers = [step.number for step in run.steps]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        begin = min(record.submitted_ms for record in run.requests)
        assert all(step.started_ms >= begin for step in run.steps)


def test_nothing_of_an_earlier_repetition_is_in_the_cache(runner: EngineRunner) -> None:
    workload = build(runner, Streams(1, Lengths(64, 64), Lengths(2, 2)))
    for _ in range(3):
        (record,) = runner.run(workload).requests
        assert record.cached_tokens == 0


def test_what_lies_at_depth_is_cached_and_in_no_step(runner: EngineRunner) -> None:
    run = runner.run(build(runner, Streams(2, Lengths(20, 20), Lengths(3, 3), depth=64)))
    assert [record.cached_tokens for record in run.requests] == [64, 64]
    assert [record.computed_tokens for record in run.requests] == [20, 20]
    assert sum(step.n_prompt_tokens for step in run.steps) == 40


def test_the_fullest_step_tells_pages_and_the_tokens_in_them(runner: EngineRunner) -> None:
    run = runner.run(build(runner, Streams(2, Lengths(64, 64), Lengths(8, 8))))
    found = kv_figures(run)
    row = runner.engine.kv_row_bytes
    # 64 tokens and up to 7 more, in pages of 16.
    assert found["peak_bytes_used"] == 2 * 80 * row
    fullest = [step.kv_bytes_used for step in run.steps].index(2 * 80 * row)
    tokens = sum(s.n_prompt_tokens + s.n_decode_tokens for s in run.steps[: fullest + 1])
    assert run.steps[fullest].kv_tokens == tokens
    assert found["bytes_over_tokens"] == pytest.approx(160 / tokens)
    assert found["fragmentation"] == pytest.approx(1 - tokens / 160)
    assert found["peak_bytes_committed"] >= found["peak_bytes_used"]
    assert run.kv is not None and 0 < run.kv.misses < run.kv.lookups


def test_tokens_of_one_step_come_at_one_time_in_all_requests(runner: EngineRunner) -> None:
    run = runner.run(build(runner, Streams(3, Lengths(8, 8), Lengths(6, 6))))
    times = sorted(at for record in run.requests for at in record.token_ms)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    # Tokens of one step have one time but for how sums are rounded; steps take longer.
    steps = 1 + sum(gap > 1e-5 for gap in gaps)
    assert steps == len(run.steps)


def test_a_trace_is_submitted_at_its_times(runner: EngineRunner) -> None:
    requests = (TracedRequest(0, 5, 3), TracedRequest(120, 6, 2), TracedRequest(130, 7, 1))
    run = runner.run(build(runner, Traced(Path("t"), requests, 3)))
    first, second, third = (record.submitted_ms for record in run.requests)
    assert second - first >= 120 and third - first >= 130
    assert [record.output_tokens for record in run.requests] == [3, 2, 1]


def test_the_long_prompt_is_read_while_the_streams_decode(runner: EngineRunner) -> None:
    scenario = Interference(2, Lengths(8, 8), Lengths(40, 40), long_prompt=128, short_prompt=8)
    run = runner.run(build(runner, scenario))
    long = run.one("long")
    for stream in run.completed("stream"):
        assert stream.token_ms[1] <= long.submitted_ms
        assert stream.token_ms[-1] > long.token_ms[0]
    found = scenario.figures(run, CHUNK)
    assert 0 < found["chunk_step_ms"] < found["long_ttft_ms"]
    # On a busy machine the end of a step and its tokens are not told at the same time.
    longest = max(
        step.duration_ms
        for step in run.steps
        if step.n_prompt_tokens and long.submitted_ms < step.started_ms < long.token_ms[0] - 1
    )
    assert found["worst_itl_ms"] >= 0.8 * longest - 1


def test_requests_after_the_first_find_the_shared_prefix(runner: EngineRunner) -> None:
    scenario = SharedPrefix(3, 100, Lengths(10, 10), Lengths(2, 2))
    for _ in range(2):
        run = runner.run(build(runner, scenario))
        assert [record.cached_tokens for record in run.requests] == [0, 96, 96]
    assert scenario.figures(run, CHUNK)["others_cached_tokens"] == 96


def test_a_request_that_is_too_long_ends_the_run_and_leaves_nothing(runner: EngineRunner) -> None:
    good, bad = Submission("stream", [5] * 50, 200), Submission("stream", [6] * 300, 2)
    with pytest.raises(PromptTooLong):
        runner.run(Workload((Wave((good, bad)),)))
    (record,) = runner.run(build(runner, Streams(1, Lengths(4, 4), Lengths(2, 2)))).requests
    assert record.output_tokens == 2
    requests = runner.engine.stats()["requests"]
    assert (requests["running"], requests["waiting"]) == (0, 0)


def test_the_settings_say_what_the_engine_was_made_with(runner: EngineRunner) -> None:
    settings = runner.settings
    assert settings["name"] == "orin-llm all"
    assert (settings["threads"], settings["chunk_size"], settings["max_batch"]) == (1, CHUNK, 6)
    assert settings["kv_memory"] == 6 * 256  # tokens


@pytest.mark.parametrize("text", ["all", "none", "-rope", "-attention,-pages"])
def test_hooks_are_told_as_the_flag_writes_them(text: str) -> None:
    assert hooks_text(Hooks.parse(text)) == text


class Recorder:
    """A contender that only remembers when it was its turn."""

    def __init__(self, name: str, turns: list[str]) -> None:
        self.settings: dict[str, object] = {"name": name}
        self._turns = turns

    def run(self, workload: Workload) -> Run:
        self._turns.append(str(self.settings["name"]))
        return Run(())


def test_contenders_take_turns_and_every_other_round_goes_backwards() -> None:
    turns: list[str] = []
    said: list[str] = []
    contenders = [Recorder(name, turns) for name in "abc"]
    runs = alternate(contenders, Workload(()), 1, 3, said.append)
    assert "".join(turns) == "abccbaabccba"
    assert [len(its_runs) for its_runs in runs] == [3, 3, 3]
    assert said[0] == "warm-up: a" and said[3] == "1/3: c"


def test_two_engines_and_every_combination_are_measured(tiny_model: Path) -> None:
    scenarios = (
        Streams(1, Lengths(8, 8), Lengths(2, 2)),
        Streams(2, Lengths(4, 4), Lengths(3, 3)),
    )
    campaign = Campaign(
        tiny_model,
        (EngineConfig(threads=1), EngineConfig(threads=1, page_size=32)),
        scenarios,
        ab=Hooks.none(),
        repetitions=2,
    )
    reports = list(measure(campaign, Engine, lambda line: None))
    assert [len(report.results) for report in reports] == [2, 2, 2, 2]
    report = Report.joined(reports)
    assert [(r.label, r.engine["name"], r.engine["page_size"]) for r in report.results] == [
        (scenario.label, f"orin-llm {hooks}", page_size)
        for page_size in (16, 32)
        for scenario in scenarios
        for hooks in ("all", "none")
    ]
    assert all(r.completed == 2 * int(str(r.workload["streams"])) for r in report.results)
    assert all((r.speedup == {}) == (r.engine["name"] == "orin-llm all") for r in report.results)
    assert report.environment["model"]["name"] == "tiny"


@pytest.mark.parametrize("kv_memory", [None, "64", "9KiB"])
def test_the_engines_of_a_comparison_have_the_same_memory_and_chunks(
    tiny_model: Path, kv_memory: str | None
) -> None:
    loaded: list[Engine] = []

    def load(path: Path, config: EngineConfig) -> Engine:
        if loaded and config.kv_memory is None:
            config = replace(config, kv_memory="32")  # as if less were free by now
        loaded.append(Engine(path, config))
        return loaded[-1]

    campaign = Campaign(
        tiny_model,
        (EngineConfig(threads=1, kv_memory=kv_memory),),
        (Streams(2, Lengths(20, 20), Lengths(2, 2)),),
        ab=Hooks.none(),
        repetitions=1,
    )
    (report,) = measure(campaign, load, lambda line: None)
    ours, other = (result.engine for result in report.results)
    assert loaded[0].kv_pages == loaded[1].kv_pages
    for name in ("kv_memory", "chunk_size", "n_ctx"):
        assert ours[name] == other[name]


def test_a_chunk_is_told_as_the_engine_computes_it(smollm2: Path) -> None:
    long = Interference(1, Lengths(2, 2), Lengths(40, 40), long_prompt=255, short_prompt=1)
    config = EngineConfig(threads=1, kv_memory="1024")  # so the context is just for the requests
    campaign = Campaign(smollm2, (config,), (long,), repetitions=1, warmup=0)
    (report,) = measure(campaign, Engine, lambda line: None)
    (found,) = report.results
    # Not the 512 that were asked for: a step has room for a token of each request beside it.
    assert (found.engine["n_ctx"], found.engine["chunk_size"]) == (256, 253)
    assert found.figures["chunk_step_ms"].median > 0


def test_a_campaign_that_cannot_be_is_refused(tiny_model: Path) -> None:
    configs = (EngineConfig(),)
    single = (Streams(1, Lengths(8, 8), Lengths(2, 2)),)
    shared = (SharedPrefix(2, 8, Lengths(1, 1), Lengths(1, 1)),)
    with pytest.raises(UsageError, match="0 repetitions"):
        Campaign(tiny_model, configs, single, repetitions=0)
    with pytest.raises(UsageError, match="-1 warm-up"):
        Campaign(tiny_model, configs, single, warmup=-1)
    with pytest.raises(UsageError, match="--ab all: these are the hooks of the first engine, too"):
        Campaign(tiny_model, configs, single, ab=Hooks())
    with pytest.raises(UsageError, match="--peer stock can only run requests that come at once"):
        Campaign(tiny_model, configs, shared, stock=True)


def test_a_peer_that_is_not_installed_is_told_before_anything_is_loaded(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    campaign = Campaign(
        tiny_model, (EngineConfig(),), (Streams(1, Lengths(8, 8), Lengths(2, 2)),), stock=True
    )
    with pytest.raises(DeviceUnavailable):
        list(measure(campaign, lambda path, config: pytest.fail("loaded"), lambda line: None))
