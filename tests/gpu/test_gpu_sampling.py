"""An engine that draws tokens on the GPU answers as one that draws the same logits on the host."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from completions import assert_a_poisoned_answer_ends_alone, finish, poisoned_model, prompt
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu

from orin_llm.engine import Completion, Engine, EngineConfig, Hooks, Request, SamplingParams
from orin_llm.engine.result import TokenLogprobs
from orin_llm.errors import OrinError

GREEDY = SamplingParams(temperature=0)
HOT = SamplingParams(temperature=1.5, top_k=0, top_p=0.9, min_p=0.01, seed=2**64 - 1)
PENALIZED = replace(HOT, repeat_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2)
RULES = {
    "greedy": GREEDY,
    "default": SamplingParams(seed=3),
    "nucleus": HOT,
    "everything": replace(HOT, top_p=1.0, min_p=0.0, temperature=0.7),
    "few": replace(HOT, top_k=7, seed=4),
    "llama": replace(HOT, order="llama", top_k=300),
    "penalties": PENALIZED,
    "full ring": replace(PENALIZED, penalty_window=5),
    "greedy, all recent": replace(GREEDY, repeat_penalty=1.5, penalty_window=-1),
    "no window": replace(PENALIZED, penalty_window=0),
    "bias": replace(PENALIZED, logit_bias={111: 9.0, 200: -math.inf, 299: 3.5}),
}
N_TOKENS = 10


CONFIG = EngineConfig(n_ctx=256, threads=1, gpu_layers=-1, max_batch=4, publish=False)
ON_HOST = replace(CONFIG, hooks=Hooks.parse("-sampling"))


@dataclass(frozen=True)
class Answer:
    tokens: tuple[int, ...]
    logprobs: list[TokenLogprobs]


def ask(
    engine: Engine, sampling: SamplingParams, logprobs: int | None = None, seed: int = 1
) -> Completion:
    tokens = prompt(seed, 20)
    return engine.complete(Request(tokens, sampling, N_TOKENS, logprobs=logprobs, ignore_eos=True))


def ask_by(engine: Engine, name: str) -> Completion:
    return ask(engine, RULES[name], 3 if name in ("nucleus", "bias") else None)


def answer_of(completion: Completion) -> Answer:
    logprobs = [entry for chunk in completion for entry in chunk.logprobs]
    return Answer(completion.result.token_ids, logprobs)


@pytest.fixture(scope="module")
def engine(tiny_model: Path) -> Iterator[Engine]:
    """It draws on the GPU. Tests must not close it."""
    with Engine(tiny_model, CONFIG) as gpu:
        assert gpu.backend["hooks"]["sampling"] == "on"
        yield gpu


@pytest.fixture(scope="module")
def on_host(tiny_model: Path) -> dict[str, Answer]:
    """What is drawn on the host by each rule, all else as on the GPU."""
    with Engine(tiny_model, ON_HOST) as host:
        assert host.backend["hooks"]["sampling"] == "off"
        return {name: answer_of(ask_by(host, name)) for name in RULES}


def assert_same(answer: Answer, expected: Answer, tolerance: float = 1e-5) -> None:
    assert answer.tokens == expected.tokens
    assert len(answer.tokens) == N_TOKENS
    for own, others in zip(answer.logprobs, expected.logprobs, strict=True):
        assert own.token == others.token
        assert [token for token, _ in own.top] == [token for token, _ in others.top]
        np.testing.assert_allclose(
            [own.logprob, *(value for _, value in own.top)],
            [others.logprob, *(value for _, value in others.top)],
            tolerance,
            tolerance,
        )


def test_the_rules_draw_answers_that_can_be_told_apart(on_host: dict[str, Answer]) -> None:
    assert len({answer.tokens for answer in on_host.values()}) == len(RULES) - 1
    assert on_host["no window"].tokens == on_host["nucleus"].tokens  # no penalties


@pytest.mark.parametrize("name", RULES)
def test_every_rule_draws_the_tokens_of_the_host(
    engine: Engine, on_host: dict[str, Answer], name: str
) -> None:
    assert_same(answer_of(ask_by(engine, name)), on_host[name])


def test_answers_side_by_side_are_drawn_by_their_own_rules(
    emulated: EmulatedGpu, engine: Engine, on_host: dict[str, Answer]
) -> None:
    """A real GPU's logits depend on how many are computed at once, and with them the tokens.

    On the emulated one they do in attention alone, which cuts contexts by the number of lanes.
    """
    together = {name: ask_by(engine, name) for name in RULES}
    for name, completion in together.items():
        assert_same(answer_of(completion), on_host[name], tolerance=1e-3)


def test_what_one_answer_left_on_the_gpu_is_not_the_next_ones(
    open_engine: OpenEngine, tiny_model: Path, on_host: dict[str, Answer]
) -> None:
    alone = open_engine(tiny_model, max_batch=1)
    for name in ("greedy, all recent", "bias", "penalties", "full ring", "greedy", "penalties"):
        assert_same(answer_of(ask_by(alone, name)), on_host[name])


def test_logits_that_are_no_numbers_end_only_their_own_answer(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    assert_a_poisoned_answer_ends_alone(open_engine(poisoned_model(tmp_path)), 24)


def test_more_than_the_gpu_has_room_for_is_refused_and_nothing_else(engine: Engine) -> None:
    for n in (21, 1000, 1 << 40):
        with pytest.raises(OrinError, match=f"^{n} log-probabilities .* 20.*--hooks -sampling"):
            ask(engine, GREEDY, logprobs=n)
    crowded = replace(GREEDY, logit_bias=dict.fromkeys(range(300), 0.5))
    most = answer_of(ask(engine, crowded, logprobs=20))
    assert len(most.tokens) == N_TOKENS
    assert {len(entry.top) for entry in most.logprobs} == {20}


def test_a_token_costs_no_more_than_16_bytes_on_the_way_back(
    emulated: EmulatedGpu, engine: Engine
) -> None:
    finish(ask(engine, GREEDY))
    emulated.reset_counters()
    together = [ask(engine, rule, seed=i) for i, rule in enumerate((GREEDY, HOT, PENALIZED))]
    n_tokens = sum(len(finish(completion)) for completion in together)
    counted = emulated.counters()
    assert 4 * n_tokens <= counted["bytes_to_host"] <= 16 * n_tokens
    assert "stream_synchronizes" not in counted
