"""Completions in event loops."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from completions import (
    alone,
    assert_nothing_is_left,
    prompt,
    settle,
    start,
)

from orin_llm.engine import Completion, Engine, EngineConfig
from orin_llm.errors import OrinError


@pytest.fixture
def engine(tiny_model: Path) -> Iterator[Engine]:
    with Engine(tiny_model, EngineConfig(n_ctx=256, threads=1, chunk_size=32)) as engine:
        yield engine


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
