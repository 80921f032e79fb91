"""What an engine remembers of each step: the pages it read and took, and who gave way for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from completions import finish, prompt, start

from orin_llm.engine import Engine, EngineConfig, Hooks, StepRecord

PAGE = 16
COUNTS = ("kv_lookups", "kv_misses", "kv_evictions", "preemptions")


def pages(tokens: int) -> int:
    return -(-tokens // PAGE)


def sums(steps: list[StepRecord]) -> dict[str, int]:
    return {name: sum(getattr(step, name) for step in steps) for name in COUNTS}


def test_a_step_reads_all_pages_of_its_sequences_and_misses_those_it_took(tiny_model: Path) -> None:
    config = EngineConfig(n_ctx=256, threads=1, chunk_size=24, page_size=PAGE)
    with Engine(tiny_model, config) as engine:
        finish(start(engine, prompt(1, 60), 30))
        steps = engine.step_log()
    filled = [24, 48, 60, *range(61, 90)]  # tokens in cells after each step
    assert [step.kv_lookups for step in steps] == [pages(n) for n in filled]
    new = [pages(n) - pages(before) for before, n in zip([0, *filled], filled, strict=False)]
    assert [step.kv_misses for step in steps] == new
    assert sums(steps)["kv_evictions"] == sums(steps)["preemptions"] == 0


def test_prompts_that_are_found_again_miss_only_what_was_not_cached(tiny_model: Path) -> None:
    config = EngineConfig(n_ctx=256, threads=1, chunk_size=64, page_size=PAGE)
    with Engine(tiny_model, config) as engine:
        finish(start(engine, prompt(1, 64), 1))
        before = engine.step_log()[-1].number
        finish(start(engine, [*prompt(1, 64), 101], 1))
        (step,) = engine.step_log(before)
    assert (step.kv_lookups, step.kv_misses) == (5, 1)


def test_what_steps_count_adds_up_to_the_statistics_when_memory_is_short(tiny_model: Path) -> None:
    config = EngineConfig(n_ctx=256, threads=1, chunk_size=32, kv_memory=256)
    with Engine(tiny_model, config) as engine:
        finish(start(engine, prompt(9, 100), 2))  # leaves cached pages
        together = [start(engine, prompt(seed, 60), 100) for seed in range(3)]
        for completion in together:
            finish(completion)
        steps, stats = engine.step_log(), engine.stats()
        preempted = sum(completion.result.preemptions for completion in together)
    kv = stats["kv"]
    total = sums(steps)
    assert total["preemptions"] == preempted > 0
    assert total["kv_evictions"] == kv["evictions"] > 0
    assert (total["kv_lookups"], total["kv_misses"]) == (kv["lookups"], kv["misses"])


def test_handing_out_is_the_end_of_a_step_and_not_computation(tiny_model: Path) -> None:
    with Engine(tiny_model, EngineConfig(n_ctx=256, threads=1)) as engine:
        finish(start(engine, prompt(1, 30), 20))
        steps = engine.step_log()
    for step in steps:
        assert 0 < step.publish_ms <= step.host_ms
        assert step.host_ms == pytest.approx(step.duration_ms - step.compute_ms - step.sampling_ms)


def test_where_nothing_is_paged_no_page_is_counted(tiny_model: Path) -> None:
    config = EngineConfig(n_ctx=256, threads=1, hooks=Hooks.none())
    with Engine(tiny_model, config) as engine:
        finish(start(engine, prompt(1, 60), 5))
        steps = engine.step_log()
    assert steps and sums(steps) == dict.fromkeys(COUNTS, 0)
