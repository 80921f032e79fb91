"""The RoPE hook in a real model: every row comes from the table, and no output bit changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orin_llm import _native

N_LAYERS = 30  # of the default model; each rotates queries and keys
PROMPT = b"The sea was calm that morning, and the boats lay still. " * 8


@pytest.fixture(scope="module")
def model(smollm2: Path) -> _native.Model:
    return _native.Model(str(smollm2), _native.ModelParams())


def session(model: _native.Model, *, rope: bool, threads: int = 1) -> _native.testing.StepProbe:
    params = _native.EngineParams(
        n_ctx=256,
        chunk_size=64,
        max_batch=1,
        threads=threads,
        k_type="f16",
        v_type="f16",
        hooks={"rope"} if rope else set(),
        page_size=16,
        kv_pages=16,
        prefix_cache=False,
    )
    return _native.testing.StepProbe(model, params)


def prompt(model: _native.Model) -> list[int]:
    return model.tokenize(PROMPT, add_special=True, parse_special=False)[:70]


def test_every_rope_row_of_prefill_and_decode_comes_from_the_table(model):
    tokens = prompt(model)
    hooked = session(model, rope=True)
    hooked.prefill(tokens)
    for token in tokens[:5]:
        hooked.decode(token)
    rows = 2 * N_LAYERS * (len(tokens) + 5)
    assert hooked.rope_counters() == {"lookups": rows, "fallbacks": 0, "out_of_bounds": 0}


def test_without_the_hook_no_graph_sees_a_table(model):
    stock = session(model, rope=False)
    stock.prefill(prompt(model))
    assert stock.rope_counters() == {"lookups": 0, "fallbacks": 0, "out_of_bounds": 0}


def test_engines_with_and_without_the_hook_give_the_same_logits(model):
    tokens = prompt(model)
    hooked, stock = session(model, rope=True, threads=2), session(model, rope=False, threads=2)
    for one in (hooked, stock):
        one.prefill(tokens)
        one.decode(tokens[3])
    assert np.array_equal(hooked.logits(), stock.logits())
    assert hooked.rope_counters()["lookups"] > 0
    assert stock.rope_counters()["lookups"] == 0
