"""The engine draws by the sampling rule: its parameters, history and place reach the draw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from stepping import step_probe

from orin_llm import _native
from orin_llm.engine import Engine, Request, SamplingParams

HOT = SamplingParams(temperature=1.5, top_k=0, top_p=0.9, min_p=0.01, seed=2**64 - 1)


def drawn(engine: Engine, sampling: SamplingParams, n: int = 12) -> tuple[int, ...]:
    completion = engine.complete(Request(engine.tokenize("Dear"), sampling, n))
    for _ in completion:
        pass
    return completion.result.token_ids


@pytest.mark.parametrize(
    "sampling",
    [
        HOT,
        replace(HOT, order="llama"),
        replace(HOT, repeat_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2),
        replace(HOT, repeat_penalty=1.3, penalty_window=5, logit_bias={11: 9.0, 400: -np.inf}),
        replace(HOT, temperature=0, repeat_penalty=1.5, penalty_window=-1),
    ],
    ids=["orin", "llama", "penalties", "window and bias", "greedy"],
)
def test_every_token_is_the_rules_at_its_position(engine: Engine, sampling: SamplingParams) -> None:
    engine.forget()
    tokens = [*engine.tokenize("Dear"), *drawn(engine, sampling)]
    n_prompt = len(tokens) - 12
    workspace = _native.SamplingWorkspace(engine.n_vocab)
    params = _native.SamplingParams(
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        repeat_penalty=sampling.repeat_penalty,
        frequency_penalty=sampling.frequency_penalty,
        presence_penalty=sampling.presence_penalty,
        order=sampling.order,
        seed=HOT.seed,
    )
    window = sampling.penalty_window
    session = step_probe(engine)
    for position in range(n_prompt, len(tokens)):
        before = tokens[:position]
        if position == n_prompt:
            session.prefill(before)
        else:
            session.decode(before[-1])
        row = _native.SamplingRow(
            params,
            session.logits(),
            recent=before if window < 0 else before[-window:],
            bias=list(sampling.logit_bias.items()),
        )
        assert workspace.sample(row, position=position) == tokens[position]


def test_all_64_bits_of_a_seed_count(engine: Engine) -> None:
    answers = {drawn(engine, replace(HOT, seed=seed)) for seed in (1, 1 + 2**32, 1 + 2**63)}
    assert len(answers) == 3


def test_the_orders_draw_different_texts_but_not_at_temperature_one(engine: Engine) -> None:
    hot = replace(HOT, temperature=5.0, top_p=0.5, min_p=0)
    assert drawn(engine, hot) != drawn(engine, replace(hot, order="llama"))
    one = replace(HOT, temperature=1.0)
    assert drawn(engine, one) == drawn(engine, replace(one, order="llama"))
