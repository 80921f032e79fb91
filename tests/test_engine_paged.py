"""Sequences in pages on a real model: numbers, reuse, growth, graphs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from completions import settle
from greedy import GreedyText, greedy_text
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stepping import step_probe

from checking.float_model import write_floats
from orin_llm.engine import Engine, EngineConfig, Hooks, Request, SamplingParams

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "calibration" / "greedy_smollm2.json").read_text(encoding="utf-8")
)["texts"]
TEXT = (GOLDEN[0]["prompt_tokens"] * 20)[:200]

GREEDY = SamplingParams(temperature=0)
PAGED = Hooks()
CELLS = Hooks(frozenset({"rope", "pages"}))  # stock attention over the pool
STOCK = Hooks(frozenset({"rope"}))


@pytest.fixture(scope="module")
def float_model(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    out = tmp_path_factory.mktemp("paged") / "float32.gguf"
    write_floats(smollm2, out, "F32")
    yield out
    out.unlink()


def engine_with(model: Path, hooks: Hooks = PAGED, **config: object) -> Engine:
    return Engine(model, EngineConfig(threads=1, hooks=hooks, **{"n_ctx": 512, **config}))  # type: ignore[arg-type]


def followed(engine: Engine, n_decode: int = 8) -> NDArray[np.float64]:
    """Logits after a prompt and each of some tokens more: [1 + n_decode, n_vocab]."""
    session = step_probe(engine)
    session.prefill(TEXT)
    rows = [session.logits()]
    for token in TEXT[:n_decode]:
        session.decode(token)
        rows.append(session.logits())
    return np.array(rows, dtype=np.float64)


def rms(x: NDArray[np.float64]) -> float:
    return float(np.sqrt((x * x).mean()))


# -- numbers --------------------------------------------------------------------------------------


def test_logits_are_those_of_the_stock_cache_within_its_rounding(float_model: Path) -> None:
    with engine_with(float_model, STOCK) as stock, engine_with(float_model) as paged:
        difference = followed(paged) - followed(stock)
    # Stock attention adds up V in half precision: with prompts in other chunks it differs from
    # itself by as much. A wrong position, page or head is off by more than 1.
    assert rms(difference) < 0.04
    assert np.abs(difference).max() < 0.25


@pytest.mark.parametrize("kv_type, bound", [("bf16", 0.06), ("q8_0", 0.15)])
def test_other_kv_types_differ_from_stock_by_rounding_only(
    float_model: Path, kv_type: str, bound: float
) -> None:
    with (
        engine_with(float_model, STOCK, kv_type=kv_type) as stock,
        engine_with(float_model, kv_type=kv_type) as paged,
    ):
        assert rms(followed(paged) - followed(stock)) < bound


def test_quantized_keys_and_values_cost_no_more_than_with_stock_attention(
    float_model: Path,
) -> None:
    with engine_with(float_model) as engine:
        reference = followed(engine)
    loss = {}
    for hooks in (PAGED, STOCK):
        with engine_with(float_model, hooks, kv_type="q8_0") as engine:
            loss[hooks] = rms(followed(engine) - reference)
    assert loss[PAGED] <= 1.1 * loss[STOCK]


def test_stock_attention_over_the_pool_reads_what_was_written_there(float_model: Path) -> None:
    # bf16 is added up in one way whatever the shapes are, so the bits are the same.
    with (
        engine_with(float_model, STOCK, kv_type="bf16") as stock,
        engine_with(float_model, CELLS, kv_type="bf16") as cells,
    ):
        assert np.array_equal(followed(cells), followed(stock))


def test_pages_and_chunks_of_any_size_give_the_same_bits(float_model: Path) -> None:
    with engine_with(float_model) as engine:
        expected = followed(engine)
    for page_size, chunk_size in ((8, 33), (256, 200)):
        with engine_with(float_model, page_size=page_size, chunk_size=chunk_size) as engine:
            assert np.array_equal(followed(engine), expected)


def test_two_threads_compute_what_one_does(tiny_model: Path) -> None:
    prompt = [100 + 7 * i % 190 for i in range(200)]
    rows = []
    for threads in (1, 2):
        with Engine(tiny_model, EngineConfig(n_ctx=256, threads=threads)) as engine:
            session = step_probe(engine)
            session.prefill(prompt)
            rows.append(session.logits())
            session.decode(100)
            rows.append(session.logits())
    np.testing.assert_allclose(rows[2:], rows[:2], atol=1e-4)


@pytest.mark.parametrize("case", range(3))
def test_greedy_text_is_stocks_or_first_differs_at_a_close_tie(
    float_model: Path, case: int
) -> None:
    def text(hooks: Hooks) -> GreedyText:
        with engine_with(float_model, hooks) as engine:
            return greedy_text(engine, GOLDEN[case]["prompt_tokens"], 32)

    assert text(PAGED).agrees_with(text(STOCK), tie=0.02)


# -- reuse ----------------------------------------------------------------------------------------


def answer(engine: Engine, prompt: list[int], n: int = 4) -> tuple[tuple[int, ...], int]:
    completion = engine.complete(Request(prompt, SamplingParams(temperature=0), max_tokens=n))
    for _ in completion:
        pass
    return completion.result.token_ids, completion.result.cached_tokens


def test_a_beginning_is_found_again_after_another_conversation(tiny_model: Path) -> None:
    with engine_with(tiny_model, n_ctx=256) as engine:
        first, other = list(range(100, 164)), list(range(200, 240))
        answer(engine, first)
        answer(engine, other)
        assert answer(engine, [*first, 90, 91])[1] == 64


def test_without_the_prefix_cache_every_prompt_is_computed(tiny_model: Path) -> None:
    with engine_with(tiny_model, n_ctx=256, prefix_cache=False) as engine:
        first = list(range(100, 164))
        answer(engine, first)
        assert answer(engine, [*first, 90, 91])[1] == 0


def test_forgetting_leaves_nothing_to_be_found_and_gives_pages_back(tiny_model: Path) -> None:
    with engine_with(tiny_model, n_ctx=256) as engine:
        answer(engine, list(range(100, 164)))
        engine.forget()
        kv = engine.stats()["kv"]
        assert kv["pages_used"] == kv["pages_cached"] == 0
        assert (
            kv["bytes_committed"] == kv["bytes_reserved"] // (kv["pages_free"])
        )  # the scratch page
        assert answer(engine, list(range(100, 164)))[1] == 0


# Few different tokens and lengths around the page size, so that beginnings are shared.
prompts = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 60), st.integers(100, 102)),
    min_size=2,
    max_size=8,
)


@settings(max_examples=40)
@given(prompts, st.sampled_from([8, 16, 64]))
def test_what_came_before_never_changes_an_answer(
    tiny_model: Path, drawn: list[tuple[int, int, int]], page_size: int
) -> None:
    with engine_with(tiny_model, n_ctx=128, page_size=page_size, chunk_size=24) as engine:
        session = step_probe(engine)
        for start, length, last in drawn:
            prompt = [(110 + 7 * start + i) % 290 for i in range(length)] + [last]
            reused = answer(engine, prompt, 3)[0]
            session.prefill(prompt)
            with_reuse = session.logits()
            with engine_with(tiny_model, n_ctx=128, chunk_size=24) as alone:
                assert answer(alone, prompt, 3)[0] == reused
                alone_session = step_probe(alone)
                alone_session.prefill(prompt)
                np.testing.assert_allclose(alone_session.logits(), with_reuse, atol=1e-4)


def test_a_cancelled_step_is_undone(smollm2: Path) -> None:
    with engine_with(smollm2, n_ctx=256) as engine:
        expected = answer(engine, TEXT)[0]
        delay_s = 0.0
        while engine.stats()["steps"]["failed"] == 0:  # until it comes in the middle of one
            assert delay_s < 1
            engine.forget()
            cancelled = engine.complete(Request(TEXT, GREEDY, 4))
            time.sleep(delay_s)
            cancelled.close()
            settle(engine)
            delay_s += 0.01
        assert answer(engine, TEXT) == (expected, 0)


# -- growth and graphs ----------------------------------------------------------------------------


def test_memory_follows_use(smollm2: Path) -> None:
    with engine_with(smollm2, n_ctx=8192) as engine:
        session = step_probe(engine)
        session.prefill(TEXT[:30])
        session.decode(TEXT[30])
        counters = session.kv_counters()
        assert counters is not None
        pages = -(-31 // 16) + 1  # and the scratch page
        assert counters["committed_bytes"] == pages * counters["page_bytes"]
        assert (
            counters["page_bytes"] == 16 * 30 * 2 * 3 * 64 * 2
        )  # layers, K and V, heads, size, f16


def anonymous_bytes() -> int:
    """Memory that this process has of the system, mapped files left out."""
    line = re.search(r"^RssAnon:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert line is not None
    return int(line[1]) * 1024


def test_the_system_gives_memory_as_cells_are_written_and_gets_it_back(smollm2: Path) -> None:
    before = anonymous_bytes()
    with engine_with(smollm2, n_ctx=8192) as engine:
        reserved = 8192 * 30 * 2 * 3 * 64 * 2
        assert anonymous_bytes() - before < reserved / 2
        session = step_probe(engine)
        session.prefill(TEXT * 2)
        session.forget()  # compute buffers stay
        empty = anonymous_bytes()
        session.prefill(TEXT * 2)
        held = anonymous_bytes() - empty
        assert held > 0.9 * reserved * 400 / 8192
        session.forget()
        assert anonymous_bytes() - empty < 0.3 * held


def test_no_graph_is_built_anew_while_the_context_grows(tiny_model: Path) -> None:
    with engine_with(tiny_model, n_ctx=256, chunk_size=16) as engine:
        session = step_probe(engine)
        session.prefill(list(range(100, 132)))
        session.decode(99)
        for turn in range(3):
            built = session.n_graphs_built
            for token in range(100, 150):
                session.decode(token)
            assert session.n_graphs_built == built
            session.prefill(list(range(110 + turn, 140 + turn)))  # in a context of its own


def test_every_page_is_counted_once(tiny_model: Path) -> None:
    with engine_with(tiny_model, n_ctx=256) as engine:
        completion = engine.complete(Request(list(range(100, 164)), GREEDY, 8))
        for _ in completion:
            pass
        in_cache = 64 + 8 - 1  # the last token drawn is not yet there
        assert completion.result.kv.pages_used == -(-in_cache // 16)
        kv = engine.stats()["kv"]
        assert kv["pages_used"] == 0
        assert kv["pages_cached"] == in_cache // 16
        assert kv["pages_cached"] + kv["pages_free"] == engine.kv_pages
        assert 0 < kv["hit_rate"] < 1


def test_a_result_tells_of_its_own_sequence_whatever_came_after(tiny_model: Path) -> None:
    with engine_with(tiny_model, n_ctx=256) as engine:
        first = engine.complete(Request(list(range(100, 164)), SamplingParams(temperature=0), 2))
        for _ in first:
            pass
        kv = first.result.kv
        answer(engine, [100, 101, 102])
        assert first.result.kv == kv
    assert first.result.kv == kv
