"""Products of weights on a GPU: which nodes our kernels have, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import architectures
import numpy as np
import pytest
from architectures import Q4_K_M, Architecture
from completions import finish, prompt, start
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu
from greedy import text_of
from numpy.typing import NDArray
from stepping import step_probe

from orin_llm.engine import Engine

PROMPT = [100 + (7 * i * i + 3 * i) % 190 for i in range(48)]
MADE = {
    name: getattr(architectures, name)()
    for name in ("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3")
}
OFF = "-matrices,-sampling"
TIE = 0.05  # between log-probabilities of texts that may part

Floats = NDArray[np.float64]
Open = Callable[..., Engine]


@pytest.fixture
def open_model(open_engine: OpenEngine, tmp_path: Path) -> Open:
    """An engine over a model; exact: with float weights of the same values, on the CPU."""

    def make(made: Architecture, types: Any = "q8_0", exact: bool = False, **config: Any) -> Engine:
        path = tmp_path / ("exact.gguf" if exact else "model.gguf")
        path.write_bytes(made.image(types, exact).data)
        defaults = {"hooks": "-sampling", "gpu_layers": 0 if exact else -1}
        return open_engine(path, **{**defaults, **config})

    return make


def logits_of(engine: Engine, n_tokens: int, n_decode: int = 2) -> Floats:
    """Behind a prompt of so many tokens, and behind each of some tokens more."""
    session = step_probe(engine)
    session.prefill(PROMPT[:n_tokens])
    rows = [session.logits().copy()]
    for token in PROMPT[:n_decode]:
        session.decode(token)
        rows.append(session.logits().copy())
    return np.array(rows, np.float64)


def rms(x: Floats) -> float:
    return float(np.sqrt((x * x).mean()))


def nodes_of(engine: Engine) -> list[str]:
    """Of the graph of a decode step."""
    session = step_probe(engine)
    session.prefill(PROMPT[:3])
    session.decode(5)
    nodes: list[str] = session.matrix_report()["nodes"]
    return nodes


FIRST = (
    "int8 rows {l}.attn_norm",
    "{l}.attn_q, {l}.attn_v, {l}.attn_k",
    "attention as int8",
)
SWIGLU = "swiglu of {l}.ffn_gate, {l}.ffn_up as int8"
GEGLU = "geglu of {l}.ffn_gate, {l}.ffn_up as int8"
LLAMA_LAYER = (
    *FIRST,
    "{l}.attn_output + sum",
    "int8 rows {l}.ffn_norm",
    SWIGLU,
    "{l}.ffn_down + sum",
)
# Rows of outputs are picked behind attention.
LLAMA_LAST = (
    *FIRST,
    "{l}.attn_output",
    "int8 rows of sum, {l}.ffn_norm",
    SWIGLU,
    "{l}.ffn_down + sum",
)
END = "int8 rows output_norm"


def with_lines(lines: tuple[str, ...], changes: dict[str, str]) -> tuple[str, ...]:
    return tuple(changes.get(line, line) for line in lines)


BIASES = {FIRST[1]: "{l}.attn_q + bias, {l}.attn_v + bias, {l}.attn_k + bias"}
FUSED = {FIRST[1]: "{l}.attn_qkv", SWIGLU: "swiglu of {l}.ffn_up, {l}.ffn_up from 256 as int8"}
GEMMA = (
    FIRST[0],
    "{l}.attn_q, {l}.attn_k, {l}.attn_v",
    FIRST[2],
    "{l}.attn_output",
    "int8 rows of {l}.post_attention_norm + sum, {l}.ffn_norm",
    GEGLU,
    "{l}.ffn_down",
)
GEMMA_NEXT = ("int8 rows of 0.post_ffw_norm + sum, 1.attn_norm", *GEMMA[1:])
GEMMA_END = "int8 rows of 1.post_ffw_norm + sum, output_norm"
# First layer, last layer, norm of the results, output matrix.
EXPECTED = {
    "llama": (LLAMA_LAYER, LLAMA_LAST, END, "output"),
    "mistral": (LLAMA_LAYER, LLAMA_LAST, END, "token_embd"),
    "qwen2": (with_lines(LLAMA_LAYER, BIASES), with_lines(LLAMA_LAST, BIASES), END, "token_embd"),
    "qwen3": (LLAMA_LAYER, LLAMA_LAST, END, "token_embd"),
    "gemma2": (GEMMA, GEMMA_NEXT, GEMMA_END, "token_embd"),
    "gemma3": (GEMMA, GEMMA_NEXT, GEMMA_END, "token_embd"),
    "phi3": (with_lines(LLAMA_LAYER, FUSED), with_lines(LLAMA_LAST, FUSED), END, "token_embd"),
}


@pytest.mark.parametrize("name", MADE)
def test_all_products_of_an_architecture_are_served(name: str, open_model: Open) -> None:
    engine = open_model(MADE[name], Q4_K_M)
    first, last, end, output = EXPECTED[name]
    assert nodes_of(engine) == [
        *(line.format(l=0) for line in first),
        *(line.format(l=1) for line in last),
        end,
        output,
    ]
    report = engine.runner.matrix_report()
    assert (report["n_stock"], report["reason"]) == (0, "")
    assert engine.backend["hooks"]["matrices"] == "on"


def errors(open_model: Open, name: str, types: Any, n_tokens: int, **config: Any) -> list[float]:
    """Of logits, with our kernels and with llama.cpp's, by the size of the logits."""
    made = MADE[name]
    exact = logits_of(open_model(made, types, exact=True), n_tokens)
    found = [
        logits_of(open_model(made, types, hooks=hooks, **config), n_tokens)
        for hooks in ("-sampling", OFF)
    ]
    return [rms(logits - exact) / rms(exact) for logits in found]


@pytest.mark.parametrize("name", MADE)
def test_every_architecture_has_the_logits_of_llama_cpps_nodes(name: str, open_model: Open) -> None:
    ours, stock = errors(open_model, name, Q4_K_M, 5)
    assert ours < 1.1 * stock + 0.003, (ours, stock)


@pytest.mark.parametrize(("n_tokens", "vector_tokens"), [(1, 0), (40, 0), (2, 8), (40, 8)])
def test_every_number_of_tokens_has_the_logits_of_llama_cpps_nodes(
    n_tokens: int, vector_tokens: int, open_model: Open
) -> None:
    kernels = f"vector_tokens={vector_tokens}"
    ours, stock = errors(open_model, "llama", Q4_K_M, n_tokens, kernels=kernels, chunk_size=32)
    assert ours < 1.1 * stock + 0.003, (ours, stock)


@pytest.mark.parametrize("kind", ["f16", "q8_0", "q4_0", "q4_1", "q5_K"])
def test_every_type_has_the_logits_of_llama_cpps_nodes(kind: str, open_model: Open) -> None:
    ours, stock = errors(open_model, "llama", kind, 3)
    assert ours < 1.1 * stock + 0.003, (ours, stock)


def test_types_may_be_mixed_in_one_layer(open_model: Open) -> None:
    types = {"": "q4_0", "attn_k": "f16", "ffn_up": "q8_0", "output": "q6_K"}
    ours, stock = errors(open_model, "llama", types, 4)
    assert ours < 1.1 * stock + 0.003, (ours, stock)
    assert "0.attn_q, 0.attn_v" in nodes_of(open_model(MADE["llama"], types))


def test_types_without_a_kernel_stay_and_say_so(open_model: Open) -> None:
    engine = open_model(MADE["llama"], exact=True, gpu_layers=-1)
    assert nodes_of(engine) == []
    report = engine.runner.matrix_report()
    assert report["n_served"] == 0 and "no kernel reads f32" in report["reason"]
    assert engine.backend["hooks"]["matrices"] == "unavailable"


@pytest.mark.parametrize("off", ["rope", "attention", "gather"])
def test_other_hooks_may_be_off(off: str, open_model: Open) -> None:
    made = MADE["qwen2"]
    exact = logits_of(open_model(made, "q8_0", exact=True), 5)
    ours = logits_of(open_model(made, "q8_0", hooks=f"-sampling,-{off}"), 5)
    assert rms(ours - exact) < 0.02 * rms(exact)


def launches(emulated: EmulatedGpu, engine: Engine, n_before: int = 0) -> dict[str, int]:
    """What a decode step behind others launches."""
    session = step_probe(engine)
    session.prefill(PROMPT[:2])
    for token in PROMPT[:n_before]:
        session.decode(token)
    session.logits()  # nothing is queued any more
    emulated.reset_counters()
    session.decode(5)
    session.logits()
    return emulated.counters()


def longer(made: Architecture) -> Architecture:
    return replace(made, shape=replace(made.shape, n_layer=made.shape.n_layer + 1))


def test_a_graph_of_many_layers_with_few_tensors_has_room_for_nodes(open_model: Open) -> None:
    """llama.cpp gives a graph 1024 nodes, or eight for each tensor of the model."""
    many = replace(MADE["phi3"], shape=replace(MADE["phi3"].shape, n_layer=32))
    report = open_model(many).runner.matrix_report()
    assert (report["n_stock"], report["reason"]) == (0, "")
    assert report["n_served"] == 32 * 4 + 1


def launches_of_a_layer(
    emulated: EmulatedGpu, open_model: Open, made: Architecture, **config: Any
) -> tuple[int, int]:
    """Of kernels of ours, and of nodes of llama.cpp."""
    engines = (open_model(a, Q4_K_M, **config) for a in (made, longer(made)))
    two, three = (launches(emulated, engine) for engine in engines)
    return tuple(three.get(n, 0) - two.get(n, 0) for n in ("kernels", "stock_nodes"))


@pytest.mark.parametrize("name", MADE)
def test_a_layer_of_a_decode_step_is_eight_launches(
    name: str, emulated: EmulatedGpu, open_model: Open
) -> None:
    assert launches_of_a_layer(emulated, open_model, MADE[name]) == (8, 0)


@pytest.mark.parametrize(
    ("kv_type", "expected"), [("q8_0", (9, 1)), ("f16:q8_0", (9, 1)), ("q8_0:f16", (8, 0))]
)
def test_quantized_values_add_the_rotation_of_attentions_result_and_its_rows(
    emulated: EmulatedGpu, open_model: Open, kv_type: str, expected: tuple[int, int]
) -> None:
    assert launches_of_a_layer(emulated, open_model, MADE["llama"], kv_type=kv_type) == expected


def test_a_captured_step_has_the_same_launches(emulated: EmulatedGpu, open_model: Open) -> None:
    engine = open_model(MADE["llama"], Q4_K_M)
    eager, replayed = (launches(emulated, engine, n) for n in (0, 3))
    assert "graphs_replayed" not in eager and replayed["graphs_replayed"] == 1
    assert replayed["kernels"] == eager["kernels"]


@pytest.mark.parametrize("n_bytes", [0, 4096])
def test_what_norms_and_what_turns_ask_for_the_next_weights(
    n_bytes: int, emulated: EmulatedGpu, open_model: Open
) -> None:
    engine = open_model(MADE["llama"], Q4_K_M, kernels=f"prefetch_bytes={n_bytes}")
    counted = launches(emulated, engine)
    n_nodes = 3 * MADE["llama"].shape.n_layer + 1  # and the norm before the output matrix
    assert counted.get("prefetches", 0) == n_nodes * n_bytes // 32


def test_lanes_that_come_and_go_have_the_text_of_llama_cpps_nodes(open_model: Open) -> None:
    sizes = [9, 20, 13]
    exact = open_model(MADE["llama"], Q4_K_M, exact=True)
    ours = open_model(MADE["llama"], Q4_K_M, hooks="all", chunk_size=16)
    started = [start(ours, prompt(size, size), 3 + size % 4, logprobs=2) for size in sizes]
    for size, completion in zip(sizes, started, strict=True):
        text = text_of(completion)
        expected = text_of(start(exact, prompt(size, size), len(text.ids), logprobs=2))
        assert len(text.ids) == 3 + size % 4
        assert expected.agrees_with(text, TIE), (expected, text)


def test_lanes_that_come_back_are_replayed(emulated: EmulatedGpu, open_model: Open) -> None:
    engine = open_model(MADE["qwen2"], hooks="all")

    def write(*sizes: int) -> None:
        for completion in [start(engine, prompt(size, size), 8) for size in sizes]:
            finish(completion)

    # Whether two prompts are one step, or the second one comes beside the first one's next token:
    # no step with prompt tokens is as large as another, so that none is captured.
    write(3)
    write(6, 9)
    captured = emulated.counters()["graphs_captured"]
    write(12)
    write(18, 24)
    assert emulated.counters()["graphs_captured"] == captured == 2


def test_smollm2_has_the_logits_of_llama_cpps_products(
    open_engine: OpenEngine, smollm2: Path
) -> None:
    ours, stock = (open_engine(smollm2, hooks=hooks) for hooks in ("-sampling", OFF))
    assert ours.runner.matrix_report()["n_stock"] == 0
    logits, expected = (logits_of(engine, 1, n_decode=0) for engine in (ours, stock))
    assert rms(logits - expected) < 0.02 * rms(expected)
