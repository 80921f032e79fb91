"""Completions on a tiny model: starting them, what one is alone, and that nothing is left."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from gguf_bytes import F32, Shape, Tensor, tiny_llama

from orin_llm.engine import Completion, Engine, EngineConfig, Request, SamplingParams
from orin_llm.errors import OrinError

GREEDY = SamplingParams(temperature=0)
POISONED = 99  # the token of poisoned_model() after which no logits are numbers
BAN_POISONED = SamplingParams(temperature=0, logit_bias={POISONED: -math.inf})


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


def poisoned_model(folder: Path) -> Path:
    """POISONED's embedding is no number; what is written with is another matrix."""
    shape = Shape()
    weights = np.random.default_rng(1).standard_normal((shape.n_vocab, shape.n_embd))
    size = (shape.n_embd, shape.n_vocab)
    output = Tensor("output.weight", size, F32, (weights / 8).astype("<f4").tobytes())
    weights[POISONED] = math.nan
    embedding = Tensor("token_embd.weight", size, F32, weights.astype("<f4").tobytes())
    path = folder / "poisoned.gguf"
    tensors = {tensor.name: tensor for tensor in (output, embedding)}
    path.write_bytes(tiny_llama(tensors=tensors).data)
    return path


def assert_a_poisoned_answer_ends_alone(engine: Engine, n: int) -> None:
    """One of `n` tokens that runs beside it goes on, and says the same again."""
    tokens = prompt(1, 20)
    request = Request(tokens, BAN_POISONED, n, ignore_eos=True)
    healthy = engine.complete(request)
    next(healthy)
    with pytest.raises(OrinError, match="not a number"):
        finish(start(engine, [*tokens, POISONED, 130]))
    assert len(finish(healthy)) == n
    assert finish(engine.complete(request)) == healthy.result.token_ids
