"""Models with sliding windows in pages: stock's numbers, and memory where nothing looks back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import windowed_models
from gguf_bytes import Image
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stepping import step_probe
from windowed_models import WINDOW

from orin_llm.engine import Engine, EngineConfig, Hooks, Request, SamplingParams

PAGED = Hooks()
CELLS = Hooks(frozenset({"rope", "pages"}))  # stock attention over the pool
STOCK = Hooks(frozenset({"rope"}))
PROMPT = [100 + (7 * i * i + 3 * i) % 190 for i in range(6 * WINDOW)]

# Logits' own root mean square is about 1. What rounding costs stays below the first, also with
# q8_0; a window that is off by one token changes them by more than the second.
ROUNDING = 0.01
OFF_BY_ONE = 0.02

MODELS: dict[str, Callable[..., Image]] = {
    "some layers": windowed_models.gemma3,
    "all layers": partial(windowed_models.gemma3, pattern=0),
    "capped scores": windowed_models.gemma2,
    "no RoPE without a window": windowed_models.cohere2,
    "sinks": windowed_models.gpt_oss,
    "shared keys and values": windowed_models.gemma4,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder = tmp_path_factory.mktemp("windows")

    def make(kind: str, window: int = WINDOW) -> Path:
        path = folder / f"{kind} {window}.gguf"
        if not path.exists():
            path.write_bytes(MODELS[kind](window=window).data)
        return path

    return make


def engine_with(model: Path, hooks: Hooks = PAGED, **config: object) -> Engine:
    defaults = {"n_ctx": 256, "chunk_size": 40, "threads": 1, "hooks": hooks}
    return Engine(model, EngineConfig(**defaults | config))  # type: ignore[arg-type]


def followed(engine: Engine, n_prompt: int, n_decode: int = 10) -> NDArray[np.float64]:
    """Logits after a prompt and each of some tokens more: [1 + n_decode, n_vocab]."""
    session = step_probe(engine)
    session.prefill(PROMPT[:n_prompt])
    rows = [session.logits()]
    for token in PROMPT[:n_decode]:
        session.decode(token)
        rows.append(session.logits())
    return np.array(rows, dtype=np.float64)


def rms(x: NDArray[np.float64]) -> float:
    return float(np.sqrt((x * x).mean()))


# Within the window, with tokens that leave it first in the decode and then in the prefill (the
# first chunk of 40 straddles it), and several windows long.
LENGTHS = (10, WINDOW - 5, WINDOW, WINDOW + 1, 6 * WINDOW)


@pytest.mark.parametrize("kv_type", ["f16", "bf16", "q8_0", "q8_0:f16", "bf16:q8_0"])
@pytest.mark.parametrize("kind", MODELS)
def test_logits_are_stocks_within_rounding(
    model: Callable[..., Path], kind: str, kv_type: str
) -> None:
    with (
        engine_with(model(kind), kv_type=kv_type) as paged,
        engine_with(model(kind), STOCK, kv_type=kv_type) as stock,
    ):
        assert paged.runner.hooks >= {"rope", "pages", "attention"}
        for n in LENGTHS:
            assert rms(followed(paged, n) - followed(stock, n)) < ROUNDING


@pytest.mark.parametrize("kind", MODELS)
def test_a_window_off_by_one_token_would_be_seen(model: Callable[..., Path], kind: str) -> None:
    n = len(PROMPT)
    with engine_with(model(kind), STOCK) as stock:
        expected = followed(stock, n)
    for window in (WINDOW - 1, WINDOW + 1):
        with engine_with(model(kind, window), STOCK) as other:
            assert rms(followed(other, n) - expected) > OFF_BY_ONE


@pytest.mark.parametrize("kind", MODELS)
def test_stock_attention_over_the_pool_reads_what_was_written_there(
    model: Callable[..., Path], kind: str
) -> None:
    with (
        engine_with(model(kind), STOCK, kv_type="bf16") as stock,
        engine_with(model(kind), CELLS, kv_type="bf16") as cells,
    ):
        for n in LENGTHS:
            assert np.array_equal(followed(cells, n), followed(stock, n))


@pytest.mark.parametrize("kind", ["some layers", "all layers"])
def test_pages_of_any_size_give_the_same_bits_and_chunks_the_same_numbers(
    model: Callable[..., Path], kind: str
) -> None:
    long = 4 * WINDOW  # attention works on 64 positions at a time
    with engine_with(model(kind, long)) as engine:
        expected = followed(engine, len(PROMPT))
    for page_size in (8, 64):
        with engine_with(model(kind, long), page_size=page_size) as engine:
            assert np.array_equal(followed(engine, len(PROMPT)), expected)
    # A chunk's work begins at the window of its first token.
    for chunk_size in (7, 33, len(PROMPT)):
        with engine_with(model(kind, long), chunk_size=chunk_size) as engine:
            assert rms(followed(engine, len(PROMPT)) - expected) < ROUNDING / 10


@pytest.mark.parametrize("kind", ["some layers", "all layers"])
def test_no_graph_is_built_anew_while_the_context_grows(
    model: Callable[..., Path], kind: str
) -> None:
    with engine_with(model(kind)) as engine:
        session = step_probe(engine)
        session.prefill(PROMPT[:10])
        session.decode(99)
        built = session.n_graphs_built
        for token in PROMPT:
            session.decode(token)
        assert session.n_graphs_built == built


# -- memory ---------------------------------------------------------------------------------------


def test_pages_behind_the_window_of_all_layers_are_given_up(model: Callable[..., Path]) -> None:
    with engine_with(model("all layers"), page_size=8, prefix_cache=False) as engine:
        session = step_probe(engine)
        session.prefill(PROMPT)
        for token in PROMPT[:80]:
            session.decode(token)
            assert session.kv_counters()["used"] <= (WINDOW - 1) // 8 + 2
        # A chunk after a full window was the most; then come the scratch page and cut pages.
        most_pages = (WINDOW + 40) // 8 + 3
        counters = session.kv_counters()
        assert counters["committed_bytes"] <= counters["page_bytes"] * most_pages


def test_pages_that_some_layers_look_back_at_stay(model: Callable[..., Path]) -> None:
    with engine_with(model("some layers"), page_size=8, prefix_cache=False) as engine:
        session = step_probe(engine)
        session.prefill(PROMPT)
        assert session.kv_counters()["used"] == len(PROMPT) // 8


def test_a_prompt_longer_than_the_pool_fits_where_all_layers_have_a_window(
    model: Callable[..., Path],
) -> None:
    n_pages = 6  # of 16 tokens: a window of 24, a chunk of 40, and what they cut
    assert n_pages * 16 < len(PROMPT)
    with engine_with(model("all layers")) as engine:
        expected = answer(engine, PROMPT)
        engine.forget()
        assert engine.runner.set_budget(n_pages)
        assert answer(engine, PROMPT) == expected


def test_a_cell_has_rows_for_all_layers(model: Callable[..., Path]) -> None:
    with engine_with(model("shared keys and values")) as engine:
        # Four layers with keys of their own, one head each of 32 or of 64, K and V, f16.
        assert engine.kv_row_bytes == (2 * 32 + 2 * 64) * 2 * 2


# -- reuse ----------------------------------------------------------------------------------------


def answer(engine: Engine, prompt: list[int]) -> tuple[tuple[int, ...], int]:
    completion = engine.complete(Request(prompt, SamplingParams(temperature=0), max_tokens=3))
    for _ in completion:
        pass
    return completion.result.token_ids, completion.result.cached_tokens


@pytest.mark.parametrize("kind", ["some layers", "all layers"])
def test_a_conversation_goes_on_and_is_found_again_after_another(
    model: Callable[..., Path], kind: str
) -> None:
    with engine_with(model(kind)) as engine:
        first = answer(engine, PROMPT)[0]
        answer(engine, [200] * 30)
        assert answer(engine, [*PROMPT, *first, 90, 91])[1] == len(PROMPT)


@pytest.mark.parametrize("kind", MODELS)
def test_completions_at_once_get_what_each_gets_alone(
    model: Callable[..., Path], kind: str
) -> None:
    requests = [
        Request(PROMPT[start : start + n], SamplingParams(temperature=0), max_tokens=30)
        for start, n in ((0, 100), (20, 10), (40, WINDOW), (60, 70))
    ]
    with engine_with(model(kind)) as engine:
        at_once = [engine.complete(request) for request in requests]
        together = [list(completion) and completion.result.token_ids for completion in at_once]
    with engine_with(model(kind), max_batch=1) as engine:
        for request, token_ids in zip(requests, together, strict=True):
            completion = engine.complete(request)
            for _ in completion:
                pass
            assert completion.result.token_ids == token_ids


@pytest.mark.parametrize("kind", ["some layers", "all layers"])
def test_keys_and_values_are_moved_with_those_behind_the_window(
    model: Callable[..., Path], kind: str
) -> None:
    with engine_with(model(kind)) as engine, engine_with(model(kind), page_size=8) as other:
        answer(engine, PROMPT)
        data = engine.read_kv(PROMPT, 0, len(PROMPT))
        size = engine.kv_row_bytes
        rows = [data[at : at + size] for at in range(0, len(data), size)]
        assert len(set(rows)) == len(rows) == len(PROMPT)
        assert engine.read_kv(PROMPT, 3, 13) == b"".join(rows[3:16])
        assert other.write_kv(PROMPT, 0, data) == len(PROMPT)
        assert other.read_kv(PROMPT, 0, len(PROMPT)) == data
        longer = [*PROMPT, *PROMPT[:5]]
        assert answer(other, longer) == answer(engine, longer)
        assert answer(engine, longer)[1] == len(PROMPT)


# Few different beginnings, so that sequences are continued, cut back and found again.
prompts = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 110), st.integers(100, 102)),
    min_size=2,
    max_size=6,
)


@pytest.mark.parametrize("kind", ["some layers", "all layers"])
@settings(max_examples=15)
@given(drawn=prompts, page_size=st.sampled_from([8, 16]), prefix_cache=st.booleans())
def test_what_came_before_never_changes_logits(
    model: Callable[..., Path],
    kind: str,
    drawn: list[tuple[int, int, int]],
    page_size: int,
    prefix_cache: bool,
) -> None:
    config = {"n_ctx": 128, "page_size": page_size, "prefix_cache": prefix_cache}
    with engine_with(model(kind), **config) as engine:
        session = step_probe(engine)
        for start, length, last in drawn:
            prompt = [*PROMPT[start : start + length], last]
            session.prefill(prompt)
            with_reuse = session.logits()
            alone = step_probe(engine)
            alone.prefill(prompt)
            # What is gone is computed anew in other steps, whose rounding differs.
            assert rms(alone.logits() - with_reuse) < ROUNDING / 10
