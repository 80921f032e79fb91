"""Keys and values of types of their own on a GPU: what is stored, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from completions import prompt
from gguf_bytes import Shape, tiny_llama
from gpu.conftest import OpenEngine
from gpu_under_test import KIND
from stepping import step_probe
from stored_rows import rounding_of, stored_rows, turned
from tiny_llama_float64 import Llama

from orin_llm.engine import Hooks
from orin_llm.gguf.kv_types import KV_TYPES

SHAPE = Shape(n_embd=256)  # heads of 64
TOKENS = prompt(3, 64)
MIXED = ("q8_0", "q8_0:q4_0", "q4_0:q8_0", "f16:q4_0", "q8_0:f16", "q4_0:bf16")

# Attention multiplies halves. A real GPU multiplies weights in lower precision than float32, too.
ERROR = 2e-3 if KIND == "emulated" else 0.02


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kv") / "heads of 64.gguf"
    path.write_bytes(tiny_llama(shape=SHAPE).data)
    return path


@pytest.mark.parametrize("kv_type", MIXED)
def test_keys_and_values_are_stored_as_their_own_type_has_them(
    open_engine: OpenEngine, model: Path, kv_type: str
) -> None:
    llama = Llama(SHAPE)
    engine = open_engine(model, kv_type=kv_type, chunk_size=24)
    exact = llama.keys_and_values(0, llama.embedding(TOKENS))
    types = engine.config.kv_types
    for kind, found, values in zip(
        (types.k, types.v), stored_rows(engine, TOKENS)[0], exact, strict=True
    ):
        expected = turned(kind, values)
        products = 0.0 if KIND == "emulated" else 0.01
        assert (np.abs(found - expected) <= rounding_of(kind, expected) + products).all()


@pytest.mark.parametrize(
    ("kv_type", "hooks"),
    [
        *((kv_type, "-sampling") for kv_type in MIXED),  # prompts are gathered
        *((f"{k}:{v}", "-sampling,-gather") for k in KV_TYPES for v in KV_TYPES),
    ],
)
def test_logits_are_those_of_float64_with_the_keys_and_values_that_are_stored(
    open_engine: OpenEngine, model: Path, kv_type: str, hooks: str
) -> None:
    llama = Llama(SHAPE)
    engine = open_engine(model, kv_type=kv_type, chunk_size=24, hooks=Hooks.parse(hooks))
    types = engine.config.kv_types
    x = llama.embedding(TOKENS)
    for layer, (k, v) in enumerate(stored_rows(engine, TOKENS)):
        x = llama.block(layer, x, turned(types.k, k), turned(types.v, v))
    session = step_probe(engine)
    session.prefill(TOKENS[:-1])
    session.decode(TOKENS[-1])
    delta = session.logits() - llama.logits(x)[-1]
    assert np.sqrt((delta * delta).mean()) < ERROR
