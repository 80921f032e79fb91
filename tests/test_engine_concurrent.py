"""Many completions at once: each gets what it gets alone, and nothing is lost."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from completions import (
    alone,
    assert_a_poisoned_answer_ends_alone,
    assert_nothing_is_left,
    finish,
    poisoned_model,
    prompt,
    settle,
    start,
)
from gguf_bytes import tiny_llama, u32

from orin_llm.engine import Completion, Engine, EngineConfig
from orin_llm.errors import OrinError


@pytest.fixture
def engine(tiny_model: Path) -> Iterator[Engine]:
    with Engine(tiny_model, EngineConfig(n_ctx=256, threads=1, chunk_size=32)) as engine:
        yield engine


# -- the same answers -----------------------------------------------------------------------------


def test_completions_in_one_batch_are_what_each_is_alone(tiny_model: Path, engine: Engine) -> None:
    prompts = [prompt(seed, n) for seed, n in enumerate([1, 5, 16, 33, 64, 100, 31, 32])]
    together = [start(engine, tokens, 120) for tokens in prompts]
    texts = [finish(completion) for completion in together]
    assert texts == [alone(tiny_model, tokens, 120) for tokens in prompts]
    assert max(step.n_decode_tokens for step in engine.step_log()) >= len(prompts) // 2
    assert_nothing_is_left(engine)


def test_more_than_fit_in_memory_take_turns_and_lose_nothing(tiny_model: Path) -> None:
    prompts = [prompt(seed, 60) for seed in range(6)]
    config = EngineConfig(n_ctx=256, threads=1, chunk_size=32, kv_memory=256)
    with Engine(tiny_model, config) as engine:
        together = [start(engine, tokens, 190) for tokens in prompts]
        texts = [finish(completion) for completion in together]
        assert sum(completion.result.preemptions for completion in together) > 0
        assert engine.stats()["requests"]["preempted"] > 0
        most = max(step.kv_bytes_committed for step in engine.step_log())
        page_bytes = engine.stats()["kv"]["bytes_reserved"] // engine.kv_pages
        assert most <= (engine.kv_pages + 1) * page_bytes  # and the scratch page
        assert_nothing_is_left(engine)
    assert texts == [alone(tiny_model, tokens, 190) for tokens in prompts]


def test_a_long_prompt_is_computed_in_chunks_with_the_others_tokens_riding_along(
    engine: Engine,
) -> None:
    running = start(engine, prompt(1, 8), 240)
    finish(start(engine, prompt(2, 200), 1))
    finish(running)
    mixed = [s for s in engine.step_log() if s.n_prompt_tokens and s.n_decode_tokens]
    assert len(mixed) >= 200 // 32 - 1
    assert all(step.n_prompt_tokens <= 32 for step in mixed)


def test_a_step_may_hold_more_tokens_than_one_sequence(tiny_model: Path) -> None:
    with Engine(tiny_model, EngineConfig(n_ctx=64, threads=1, chunk_size=512)) as engine:
        together = [start(engine, prompt(seed, 60), 4) for seed in range(16)]
        assert [len(finish(completion)) for completion in together] == [4] * 16


def test_the_cache_is_told_by_phase(engine: Engine) -> None:
    completion = start(engine, prompt(1, 33), 200)
    next(completion)
    next(completion)
    kv = engine.stats()["kv"]
    page_bytes = kv["bytes_reserved"] // engine.kv_pages
    assert kv["bytes_after_prefill"] == 3 * page_bytes
    assert kv["bytes_after_decode"] >= kv["bytes_after_prefill"]


def test_a_shared_beginning_is_computed_once(engine: Engine) -> None:
    system = prompt(1, 160)
    first = start(engine, [*system, 101, 102])
    finish(first)
    others = [start(engine, [*system, 110 + i, 111]) for i in range(4)]
    for completion in others:
        finish(completion)
    assert first.result.cached_tokens == 0
    assert [completion.result.cached_tokens for completion in others] == [160] * 4


def test_the_senior_of_two_prompts_is_done_first_and_a_higher_priority_is_a_head_start(
    tiny_model: Path,
) -> None:
    config = EngineConfig(n_ctx=256, threads=1, chunk_size=16, max_batch=1)
    with Engine(tiny_model, config) as engine:
        blockers = [start(engine, prompt(seed, 100), 100) for seed in range(10)]
        late = {
            name: start(engine, prompt(seed, 50), 2, priority=priority)
            for seed, (name, priority) in enumerate([("plain", 0), ("urgent", 1), ("later", 0)], 10)
        }
        for completion in [*blockers, *late.values()]:
            finish(completion)
        started_ms = {}
        for name, completion in late.items():
            assert completion._native is not None
            started_ms[name] = completion._native.report()["started_ms"]
        assert started_ms["urgent"] < started_ms["plain"] < started_ms["later"]


# -- ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 5])
def test_cancelling_in_any_phase_frees_all_pages(engine: Engine, after: int) -> None:
    completion = start(engine, prompt(1, 100), 100)
    for _ in range(after):
        next(completion)
    completion.close()
    assert completion.result.finish_reason == "cancelled"
    assert completion.result.completion_tokens == after
    settle(engine)
    assert_nothing_is_left(engine)


def test_a_completion_that_is_dropped_stops(tmp_path: Path) -> None:
    # Long enough not to end by itself while this thread is kept from dropping it.
    model = tmp_path / "long.gguf"
    model.write_bytes(tiny_llama(metadata={"llama.context_length": u32(8192)}).data)
    with Engine(model, EngineConfig(n_ctx=8192, threads=1)) as engine:
        completion = start(engine, prompt(1, 16), 8000)
        next(completion)
        del completion
        gc.collect()
        settle(engine)
        assert engine.stats()["requests"]["cancelled"] == 1
        assert_nothing_is_left(engine)


def test_an_exception_of_who_takes_the_tokens_stops_only_that_completion(engine: Engine) -> None:
    class Mistake(Exception):
        pass

    def callback(text: str) -> None:
        raise Mistake

    other = start(engine, prompt(1, 16), 50)

    def run() -> None:
        for chunk in start(engine, prompt(2, 16), 200):
            callback(chunk.text)

    with pytest.raises(Mistake):
        run()
    gc.collect()
    assert len(finish(other)) == 50
    settle(engine)
    assert_nothing_is_left(engine)


def test_a_deadline_ends_a_completion_as_it_is(engine: Engine) -> None:
    completion = start(engine, prompt(1, 16), 230, timeout_s=0.004)
    finish(completion)
    assert completion.result.finish_reason == "deadline"
    assert completion.result.completion_tokens < 230
    assert engine.stats()["requests"]["expired"] == 1
    assert_nothing_is_left(engine)


def test_what_waits_for_its_turn_can_expire(tiny_model: Path) -> None:
    with Engine(tiny_model, EngineConfig(n_ctx=256, threads=1, max_batch=1)) as engine:
        before = [start(engine, prompt(seed, 16), 230) for seed in range(30)]
        waiting = start(engine, prompt(31, 16), 8, timeout_s=0.005)
        assert finish(waiting) == ()
        assert waiting.result.finish_reason == "deadline"
        for completion in before:
            finish(completion)
        assert_nothing_is_left(engine)


def test_closing_an_engine_ends_all_that_runs_and_waits(tiny_model: Path) -> None:
    engine = Engine(tiny_model, EngineConfig(n_ctx=256, threads=1, max_batch=2))
    completions = [start(engine, prompt(seed, 20), 200) for seed in range(40)]
    closer = threading.Thread(target=engine.close)
    closer.start()
    errors = []
    for completion in completions:
        try:
            finish(completion)
        except OrinError as error:
            errors.append(str(error))
    closer.join()
    assert errors  # the first may have been done
    assert all("closed" in error for error in errors)
    with pytest.raises(OrinError, match="closed"):
        start(engine, [100])


def test_logits_that_are_no_numbers_end_only_the_completion_they_belong_to(tmp_path: Path) -> None:
    with Engine(poisoned_model(tmp_path), EngineConfig(n_ctx=256, threads=1)) as engine:
        assert_a_poisoned_answer_ends_alone(engine, 200)
        assert engine.stats()["requests"]["failed"] == 1
        assert_nothing_is_left(engine)


# -- load -----------------------------------------------------------------------------------------


def test_a_thousand_short_completions_all_end(engine: Engine) -> None:
    completions = [start(engine, prompt(seed, 1 + seed % 20), 1 + seed % 3) for seed in range(1000)]
    lengths = [len(finish(completion)) for completion in completions]
    assert lengths == [1 + seed % 3 for seed in range(1000)]
    assert engine.stats()["requests"]["finished"] == 1000
    assert_nothing_is_left(engine)


def disturb(engine: Engine, seed: int, seconds: float) -> None:
    """Submit, take, cancel, drop, forget at random."""
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    held: list[Completion] = []
    while time.monotonic() < until:
        match chance.randrange(8):
            case 0 | 1 | 2:
                shared = prompt(chance.randrange(3), chance.randrange(1, 120))
                timeout = chance.choice([None, None, 0.003])
                held.append(start(engine, shared, chance.randrange(1, 100), timeout_s=timeout))
            case 3 | 4:
                for completion in held[:3]:
                    next(completion, None)
            case 5 if held:
                held.pop(chance.randrange(len(held))).close()
            case 6 if held:
                del held[chance.randrange(len(held))]
            case 7:
                engine.forget() if chance.random() < 0.1 else time.sleep(0.002)
        while len(held) > 12:
            finish(held.pop())


def test_random_submitting_and_cancelling_from_many_threads_leaks_nothing(tiny_model: Path) -> None:
    config = EngineConfig(n_ctx=256, threads=1, chunk_size=32, kv_memory=288, max_batch=4)
    with Engine(tiny_model, config) as engine:
        threads = [threading.Thread(target=disturb, args=(engine, i, 3.0)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive()
        gc.collect()
        settle(engine)
        assert_nothing_is_left(engine)
        stats = engine.stats()["requests"]
        assert min(stats["finished"], stats["cancelled"], stats["preempted"]) > 0
        assert len(finish(start(engine, prompt(9, 50), 20))) == 20
