"""Our build beside stock llama.cpp: the same bits, with our hooks off and on."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from greedy import GreedyText, greedy_text
from stepping import step_probe

from orin_llm.bench.stock import StockPeer
from orin_llm.engine import Engine, EngineConfig, Hooks

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "calibration" / "greedy_smollm2.json").read_text(encoding="utf-8")
)["texts"]
TOKENS = 64
# Another processor sums in another order, and activations are rounded to 8 bits between layers:
# stock's own logits move by up to 0.9 with another chunk size.
TIE_ACROSS_MACHINES = 1.0

each_case = pytest.mark.parametrize("case", range(len(GOLDEN)))

Write = Callable[[int], GreedyText]

ROPE = Hooks.parse("-pages,-attention")  # test_engine_paged.py has the others


def ours(
    model: Path, hooks: Hooks, case: int, threads: int = 1, tokens: int = TOKENS
) -> GreedyText:
    """Our text after a golden prompt; with the RoPE hook on, every row comes from a table."""
    config = EngineConfig(n_ctx=512, threads=threads, hooks=hooks)
    with Engine(model, config) as engine:
        text = greedy_text(engine, GOLDEN[case]["prompt_tokens"], tokens)
        session = step_probe(engine)
        session.prefill(GOLDEN[case]["prompt_tokens"])
        counters = session.rope_counters()
        assert (counters["lookups"] > 0) == ("rope" in hooks.enabled)
        assert counters["fallbacks"] == counters["out_of_bounds"] == 0
    return text


@pytest.fixture(scope="module")
def stock(needs_stock: None, smollm2: Path) -> Callable[..., GreedyText]:
    @cache
    def write(case: int, threads: int = 1, tokens: int = TOKENS) -> GreedyText:
        with StockPeer(smollm2, n_ctx=512, threads=threads) as peer:
            return GreedyText(*peer.greedy(GOLDEN[case]["prompt_tokens"], tokens))

    return write


# Margins are differences of logits: where all are equal to the last bit, so are the logits.


@each_case
def test_hooks_off_is_stock_bit_for_bit(smollm2: Path, stock: Write, case: int) -> None:
    assert ours(smollm2, Hooks.none(), case) == stock(case)


@each_case
def test_rope_tables_are_stock_bit_for_bit(smollm2: Path, stock: Write, case: int) -> None:
    assert ours(smollm2, ROPE, case) == stock(case)


def test_two_threads_change_nothing_of_that(
    smollm2: Path, stock: Callable[..., GreedyText]
) -> None:
    # few tokens: on a busy machine threads wait long for each other
    two = {"threads": 2, "tokens": 12}
    assert ours(smollm2, ROPE, 0, **two) == stock(0, **two)


@each_case
def test_golden_text_is_written_on_every_machine(smollm2: Path, engine: Engine, case: int) -> None:
    golden = GOLDEN[case]
    assert engine.tokenize(golden["prompt"], parse_special=True) == golden["prompt_tokens"]
    text = greedy_text(engine, golden["prompt_tokens"], TOKENS)
    assert text.agrees_with(GreedyText(golden["ids"], golden["margins"]), TIE_ACROSS_MACHINES)
