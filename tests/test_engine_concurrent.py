"""Many completions at once: each gets what it gets alone, and nothing is lost."""

from __future__ import annotations

import asyncio
import gc
import math
import random
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from gguf_bytes import F32, Image, Shape, Tensor, tiny_llama

from orin_llm.engine import Completion, Engine, EngineConfig, Request, SamplingParams
from orin_llm.errors import OrinError, PromptTooLong, UsageError

GREEDY = SamplingParams(temperature=0)


@pytest.fixture
def engine(tiny_model: Path) -> Iterator[Engine]:
    with Engine(tiny_model, EngineConfig(n_ctx=256, threads=1, chunk_size=32)) as engine:
        yield engine


def prompt(seed: int, n: int) -> list[int]:
    return random.Random(seed).choices(range(100, 290), k=n)


def start(engine: Engine, tokens: Sequence[int], n: int = 8, **more: object) -> Completion:
    return engine.complete(Request(tokens, GREEDY, n, ignore_eos=True, **more))  # type: ignore[arg-type]


def finish(completion: Completion) -> tuple[int, ...]:
    for _ in completion:
        pass
    return completion.result.token_ids


def alone(tiny_model: Path, tokens: Sequence[int], n: int) -> tuple[int, ...]:
    with Engine(tiny_model, EngineConfig(n_ctx=256, threads=1)) as engine:
        return finish(start(engine, tokens, n))


def assert_nothing_is_left(engine: Engine) -> None:
    """No request, and no page that a sequence holds."""
    stats = engine.stats()
    requests = stats["requests"]
    assert requests["running"] == requests["waiting"] == 0
    ended = requests["finished"] + requests["cancelled"] + requests["expired"]
    assert requests["submitted"] == ended
    kv = stats["kv"]
    assert kv["pages_used"] == 0
    assert kv["pages_cached"] + kv["pages_free"] == engine.kv_pages


def settle(engine: Engine) -> None:
    """Until what was cancelled is gone."""
    while any(engine.stats()["requests"][key] for key in ("running", "waiting")):
        time.sleep(0.001)


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


def test_a_completion_that_is_dropped_stops(engine: Engine) -> None:
    completion = start(engine, prompt(1, 16), 200)
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


def with_a_poisoned_token(token: int) -> Image:
    """Its embedding is no number; what is written with is another matrix."""
    shape = Shape()
    weights = np.random.default_rng(1).standard_normal((shape.n_vocab, shape.n_embd))
    size = (shape.n_embd, shape.n_vocab)
    output = Tensor("output.weight", size, F32, (weights / 8).astype("<f4").tobytes())
    weights[token] = math.nan
    embedding = Tensor("token_embd.weight", size, F32, weights.astype("<f4").tobytes())
    return tiny_llama(tensors={tensor.name: tensor for tensor in (output, embedding)})


def test_logits_that_are_no_numbers_end_only_the_completion_they_belong_to(tmp_path: Path) -> None:
    poisoned = 99
    model = tmp_path / "poisoned.gguf"
    model.write_bytes(with_a_poisoned_token(poisoned).data)
    bans = SamplingParams(temperature=0, logit_bias={poisoned: -math.inf})
    with Engine(model, EngineConfig(n_ctx=256, threads=1)) as engine:
        tokens = prompt(1, 20)
        healthy = engine.complete(Request(tokens, bans, 200, ignore_eos=True))
        next(healthy)
        with pytest.raises(OrinError, match="not a number"):
            finish(start(engine, [*tokens, poisoned, 130]))
        assert len(finish(healthy)) == 200
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


# -- event loops ----------------------------------------------------------------------------------


async def finish_async(completion: Completion) -> tuple[int, ...]:
    async for _ in completion:
        pass
    return completion.result.token_ids


def test_coroutines_take_tokens_without_threads(tiny_model: Path, engine: Engine) -> None:
    prompts = [prompt(seed, 10 + seed) for seed in range(8)]

    async def main() -> list[tuple[int, ...]]:
        tasks = [finish_async(start(engine, tokens, 12)) for tokens in prompts]
        texts = await asyncio.gather(*tasks)
        assert threading.active_count() == before
        return texts

    before = threading.active_count()
    assert asyncio.run(main()) == [alone(tiny_model, tokens, 12) for tokens in prompts]
    assert asyncio.run(main()) is not None  # a second loop, after the first has ended
    assert_nothing_is_left(engine)


def test_a_cancelled_task_stops_its_completion(engine: Engine) -> None:
    async def main() -> None:
        task = asyncio.create_task(finish_async(start(engine, prompt(1, 100), 150)))
        await asyncio.sleep(0)  # it waits for the first token
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    gc.collect()
    settle(engine)
    requests = engine.stats()["requests"]
    assert requests["cancelled"] + requests["finished"] == 1  # it may have been done, too
    assert_nothing_is_left(engine)


def test_closing_the_engine_wakes_coroutines(tiny_model: Path) -> None:
    engine = Engine(tiny_model, EngineConfig(n_ctx=256, threads=1, max_batch=1))

    async def main() -> None:
        completions = [start(engine, [100 + i], 240) for i in range(40)]
        waiting = [asyncio.create_task(finish_async(completion)) for completion in completions]
        await asyncio.sleep(0.01)
        await asyncio.get_running_loop().run_in_executor(None, engine.close)
        done = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
        assert any(isinstance(error, OrinError) for error in done)  # the first may be done

    asyncio.run(main())


# -- memory ---------------------------------------------------------------------------------------


def test_kv_memory_is_given_in_tokens_or_bytes_and_is_never_exceeded(tiny_model: Path) -> None:
    sizes = {}
    for limit in ("512", 512, "64kB", "64 kib"):
        config = EngineConfig(n_ctx=64, threads=1, kv_memory=limit)
        with Engine(tiny_model, config) as engine:
            for seed in range(20):
                finish(start(engine, prompt(seed, 50), 10))
            kv = engine.stats()["kv"]
            page_bytes = kv["bytes_reserved"] // engine.kv_pages
            assert kv["bytes_committed"] <= kv["bytes_reserved"] + page_bytes
            assert kv["evictions"] > 0
            sizes[limit] = kv["bytes_reserved"]
    assert sizes["512"] == sizes[512]
    assert 64000 - page_bytes < sizes["64kB"] <= 64000
    assert 65536 - page_bytes < sizes["64 kib"] <= 65536


@pytest.mark.parametrize(
    "limit", ["", "0", "-5", "1.5", "12 parsecs", "MiB", "0MiB", "1e3", "9" * 400 + "GB"]
)
def test_a_kv_memory_that_is_no_size_is_refused(limit: str) -> None:
    with pytest.raises(UsageError, match="--kv-memory"):
        EngineConfig(kv_memory=limit)


def test_a_context_larger_than_the_kv_memory_is_refused(tiny_model: Path) -> None:
    with pytest.raises(UsageError, match=r"128 tokens.*256.*--kv-memory.*--ctx-size"):
        Engine(tiny_model, EngineConfig(n_ctx=256, kv_memory=128))
    with pytest.raises(UsageError, match=r"holds 0 tokens: choose 16 or more"):
        Engine(tiny_model, EngineConfig(kv_memory="1KiB"))
    with Engine(tiny_model, EngineConfig(kv_memory=128, threads=1)) as engine:
        assert engine.n_ctx == 128  # where none was asked for
        with pytest.raises(PromptTooLong, match=r"holds 128 .* larger KV memory \(--kv-memory"):
            start(engine, prompt(1, 128))


def test_shrinking_gives_memory_back_and_growing_again_works(tiny_model: Path) -> None:
    with Engine(tiny_model, EngineConfig(n_ctx=64, threads=1, kv_memory=1024)) as engine:
        for seed in range(16):
            finish(start(engine, prompt(seed, 50), 10))
        before = engine.stats()["kv"]["bytes_committed"]
        engine.resize_kv(128)
        kv = engine.stats()["kv"]
        assert kv["bytes_committed"] <= before / 4
        assert kv["pages_cached"] + kv["pages_free"] == 8
        running = start(engine, prompt(1, 40), 20)
        finish(running)
        assert running.result.kv.pages_total == 8
        with pytest.raises(UsageError, match=r"expected 64 .* 1024"):
            engine.resize_kv(32)
        engine.resize_kv(1024)
        assert engine.stats()["kv"]["pages_free"] > 50


def test_rows_of_the_cache_can_be_read_and_put_back(tiny_model: Path, engine: Engine) -> None:
    tokens = prompt(1, 100)
    finish(start(engine, tokens, 4))
    rows = engine.read_kv(tokens, 0, 100)
    row = engine.kv_row_bytes
    assert len(rows) == 96 * row
    assert engine.read_kv(tokens, 32, 32) == rows[32 * row : 64 * row]
    config = EngineConfig(n_ctx=256, threads=1, page_size=8)
    with Engine(tiny_model, config) as other:
        assert other.read_kv(tokens, 0, 100) == b""
        half = 48 * row
        assert other.write_kv(tokens[:96], 48, rows[half:]) == 0  # the beginning is not there
        assert other.write_kv(tokens[:48], 0, rows[:half]) == 48
        assert other.write_kv(tokens[:96], 48, rows[half:]) == 96
        kv = other.stats()["kv"]
        assert kv["pages_cached"] == 12
        assert kv["lookups"] == kv["misses"] == kv["prefix_queries"] == 0  # no step has run
        assert other.read_kv(tokens, 0, 100) == rows
        completion = start(other, tokens, 4)
        assert finish(completion) == alone(tiny_model, tokens, 4)
        assert completion.result.cached_tokens == 96
        assert_nothing_is_left(other)
