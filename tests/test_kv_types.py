"""Keys and values of types of their own: how they are asked for, stored, counted and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from completions import finish, prompt, start
from gguf_bytes import Image, Shape, tiny_latent, tiny_llama
from greedy import GreedyText, greedy_text
from hypothesis import given
from hypothesis import strategies as st
from stepping import step_probe
from stored_rows import rounding_of, stored_rows, turned
from tiny_llama_float64 import Llama

from orin_llm.bench.stock import StockPeer
from orin_llm.engine import Engine, EngineConfig, Hooks
from orin_llm.errors import UsageError
from orin_llm.gguf.footprint import kv_bytes_per_token
from orin_llm.gguf.kv_types import KV_TYPES, KvTypes

SHAPE = Shape(n_embd=256)  # heads of 64
MIXED = ("q8_0:q4_0", "q4_0:q8_0", "f16:q4_0", "q8_0:f16", "q4_0:bf16")
TOKENS = prompt(3, 64)

Open = Callable[..., Engine]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kv") / "heads of 64.gguf"
    path.write_bytes(tiny_llama(shape=SHAPE).data)
    return path


@pytest.fixture
def open_engine(model: Path) -> Iterator[Open]:
    with ExitStack() as opened:

        def make(kv_type: str, hooks: str = "all", path: Path = model, **more: object) -> Engine:
            defaults = {"n_ctx": 128, "chunk_size": 24, "threads": 1, "publish": False}
            config = EngineConfig(
                kv_type=kv_type,
                hooks=Hooks.parse(hooks),
                **{**defaults, **more},  # type: ignore[arg-type]
            )
            return opened.enter_context(Engine(path, config))

        yield make


# -- names ----------------------------------------------------------------------------------------


@given(k=st.sampled_from(list(KV_TYPES)), v=st.sampled_from(list(KV_TYPES)), gap=st.booleans())
def test_two_names_are_keys_and_values_and_the_shortest_form_reads_the_same(
    k: str, v: str, gap: bool
) -> None:
    types = KvTypes.parse(f" {k} : {v} " if gap else f"{k}:{v}")
    assert (types.k.name, types.v.name) == (k, v)
    assert KvTypes.parse(types.text) == types
    assert EngineConfig(kv_type=f"{k}:{v}").kv_type == (k if k == v else f"{k}:{v}")


@pytest.mark.parametrize("text", ["", ":", "q8_0:", ":q8_0", "q8_0:q4_0:f16", "Q8_0", "q8_0,f16"])
def test_anything_else_is_refused_with_what_is_known(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected f16, bf16, q8_0, q4_0, or .*: q8_0:q4_0"):
        EngineConfig(kv_type=text)


@pytest.mark.parametrize(
    ("image", "kv_type", "reason"),
    [
        (tiny_llama(n_embd=192), "q8_0", "keys of this model are heads of 48"),
        (tiny_llama(n_embd=192), "f16:q4_0", "values of this model are heads of 48"),
        (tiny_latent(), "f16:bf16", "values of this model are part of its keys"),
    ],
)
def test_types_that_llama_cpp_has_no_cache_of_are_refused_and_others_advised(
    open_engine: Open, tmp_path: Path, image: Image, kv_type: str, reason: str
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(image.data)
    with pytest.raises(UsageError, match=reason):
        open_engine(kv_type, path=path)


# -- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kv_type", ["f16", "q8_0", "q4_0", *MIXED])
def test_keys_and_values_are_stored_as_their_own_type_has_them(
    open_engine: Open, kv_type: str
) -> None:
    llama = Llama(SHAPE)
    engine = open_engine(kv_type)
    exact = llama.keys_and_values(0, llama.embedding(TOKENS))
    types = engine.config.kv_types
    for kind, found, values in zip(
        (types.k, types.v), stored_rows(engine, TOKENS)[0], exact, strict=True
    ):
        expected = turned(kind, values)
        assert found.shape == expected.shape
        assert (np.abs(found - expected) <= rounding_of(kind, expected)).all()


@pytest.mark.parametrize("kv_type", [f"{k}:{v}" for k in KV_TYPES for v in KV_TYPES])
def test_logits_are_those_of_float64_with_the_keys_and_values_that_are_stored(
    open_engine: Open, kv_type: str
) -> None:
    llama = Llama(SHAPE)
    engine = open_engine(kv_type)
    types = engine.config.kv_types
    x = llama.embedding(TOKENS)
    for layer, (k, v) in enumerate(stored_rows(engine, TOKENS)):
        x = llama.block(layer, x, turned(types.k, k), turned(types.v, v))
    session = step_probe(engine)
    session.prefill(TOKENS)
    assert np.abs(session.logits() - llama.logits(x)[-1]).max() < 1e-4


@pytest.mark.parametrize("kv_type", MIXED)
def test_logits_are_those_of_llama_cpps_own_cache_within_rounding(
    open_engine: Open, kv_type: str
) -> None:
    rows = []
    for hooks in ("all", "none"):
        session = step_probe(open_engine(kv_type, hooks))
        session.prefill(TOKENS)
        logits = [session.logits().copy()]
        for token in TOKENS[:4]:
            session.decode(token)
            logits.append(session.logits().copy())
        rows.append(np.array(logits))
    assert np.sqrt(np.square(rows[0] - rows[1]).mean()) < 0.02  # the logits' own is about 1


def test_greedy_text_is_that_of_the_unpatched_library(
    needs_stock: None, smollm2: Path, open_engine: Open
) -> None:
    kv_type = "q8_0:q4_0"
    with StockPeer(smollm2, n_ctx=128, chunk_size=24, kv_type=kv_type) as stock:
        tokens = stock.tokenize(b"The three largest cities of the country are")
        theirs = GreedyText(*stock.greedy(tokens, 12))
    ours = greedy_text(open_engine(kv_type, path=smollm2), tokens, 12)
    assert ours.agrees_with(theirs, tie=0.2)


# -- counts ---------------------------------------------------------------------------------------

# Bytes of 32 values.
BLOCK = {"f16": 64, "bf16": 64, "q8_0": 34, "q4_0": 18}


@pytest.mark.parametrize("kv_type", ["f16", "q8_0", "q4_0", *MIXED])
def test_pages_take_the_bytes_of_both_types(open_engine: Open, kv_type: str) -> None:
    engine = open_engine(kv_type, kv_memory=1024)
    n_elements = SHAPE.n_layer * SHAPE.n_head_kv * SHAPE.head
    k, _, v = kv_type.partition(":")
    token_bytes = n_elements // 32 * (BLOCK[k] + BLOCK[v or k])
    assert engine.kv_row_bytes == kv_bytes_per_token(engine.header, kv_type) == token_bytes
    finish(start(engine, TOKENS, 2))
    kv = engine.stats()["kv"]
    assert kv["bytes_after_prefill"] == 4 * 16 * token_bytes
    assert kv["bytes_reserved"] == 1024 * token_bytes
    assert engine.backend["kv_type"] == kv_type


def test_the_same_bytes_hold_more_pages_of_smaller_types(open_engine: Open) -> None:
    pages = [
        open_engine(kv_type, kv_memory="1MiB").kv_pages
        for kv_type in ("f16", "q8_0", "q8_0:q4_0", "q4_0")
    ]
    page = [
        16 * SHAPE.n_layer * SHAPE.n_head_kv * 2 * (a + b)
        for a, b in ((64, 64), (34, 34), (34, 18), (18, 18))
    ]
    assert pages == [(1 << 20) // n_bytes for n_bytes in page]
