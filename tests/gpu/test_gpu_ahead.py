"""Steps on a GPU are started before the one before is collected: that changes no text.

Each answer is compared with what it is alone where the host draws, one step at a time. Prompts are
not gathered: what is computed again after giving way would be rounded in another way than when its
tokens were drawn one by one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from completions import assert_nothing_is_left, finish, prompt, settle
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu

from orin_llm.engine import Completion, Engine, EngineConfig, Request, SamplingParams

N_TOKENS = 40
SAMPLINGS = (
    SamplingParams(temperature=0),
    SamplingParams(temperature=0.9, seed=5),
    SamplingParams(temperature=0.7, seed=6, repeat_penalty=1.3, frequency_penalty=0.3),
)
# Some begin alike; the pool below holds two or three of them.
PROMPTS = [prompt(seed % 3, 4 + 4 * seed) for seed in range(9)]


def start(engine: Engine, number: int) -> Completion:
    sampling = SAMPLINGS[number % len(SAMPLINGS)]
    return engine.complete(Request(PROMPTS[number], sampling, N_TOKENS, ignore_eos=number % 2 == 0))


@pytest.fixture(scope="module")
def alone(model: Path) -> Iterator[list[tuple[int, ...]]]:
    config = EngineConfig(
        n_ctx=96, threads=1, publish=False, hooks="-sampling,-gather", max_batch=1
    )
    with Engine(model, config) as engine:
        yield [finish(start(engine, number)) for number in range(len(PROMPTS))]


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_whenever_the_gpu_does_its_work_each_text_is_the_one_it_is_alone(
    emulated: EmulatedGpu,
    open_engine: OpenEngine,
    model: Path,
    alone: list[tuple[int, ...]],
    schedule: int,
) -> None:
    emulated.set_schedule(schedule)
    sizes = {"n_ctx": 96, "page_size": 8, "chunk_size": 32, "max_batch": 4}
    engine = open_engine(model, hooks="-gather", kv_memory="96", **sizes)
    rng = random.Random(schedule)
    answers = []
    for number in rng.sample(range(len(PROMPTS)), len(PROMPTS)):
        answers.append((number, start(engine, number)))
        if rng.random() < 0.4:
            dropped = start(engine, number)
            next(dropped)
            dropped.close()
        if rng.random() < 0.3:
            engine.forget()
    for number, completion in answers:
        assert finish(completion) == alone[number]
    settle(engine)
    assert_nothing_is_left(engine)
    assert engine.stats()["requests"]["preempted"] > 0
