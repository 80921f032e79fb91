"""An engine on a GPU whose layers turn and store in one node has the logits of one without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import windowed_models
from gguf_bytes import Image, Shape, Tensor, array, f32, string, tiny_llama, u32
from gpu.conftest import HEADS_OF_64, OpenEngine
from gpu.emulated import EmulatedGpu
from greedy import greedy_text
from numpy.typing import NDArray
from stepping import step_probe

from orin_llm.engine import Engine, Request

PROMPT = [100 + (7 * i * i + 3 * i) % 190 for i in range(40)]
ALL_LAYERS = {"n_stock": 0, "reason": ""}
TIE = 0.05  # greedy text may differ where the top two are as close


def llama() -> Image:
    return tiny_llama(shape=HEADS_OF_64)


def with_yarn() -> Image:
    scaling = {
        "llama.rope.scaling.type": string("yarn"),
        "llama.rope.scaling.factor": f32(4.0),
        "llama.rope.scaling.original_context_length": u32(64),
    }
    return tiny_llama(shape=HEADS_OF_64, metadata=scaling)


def qwen2vl() -> Image:
    shape = Shape(arch="qwen2vl")
    biases = {
        f"blk.{layer}.{name}.bias": Tensor(f"blk.{layer}.{name}.bias", (size,))
        for layer in range(shape.n_layer)
        for name, size in (("attn_q", 64), ("attn_k", 32), ("attn_v", 32))
    }
    sections = {"qwen2vl.rope.dimension_sections": array("i32", [2, 3, 3, 0])}
    return tiny_llama(shape=shape, metadata=sections, tensors=biases)


def logits_of(engine: Engine, n_decode: int = 2) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """After a prompt of several chunks and each of some tokens more; what its graphs have."""
    session = step_probe(engine)
    session.prefill(PROMPT)
    rows = [session.logits().copy()]
    for token in PROMPT[:n_decode]:
        session.decode(token)
        rows.append(session.logits().copy())
    return np.array(rows, dtype=np.float64), session.rope_store_report()


@pytest.fixture
def both(open_engine: OpenEngine, tmp_path: Path) -> Callable[..., tuple[Engine, Engine]]:
    """An engine with the hook and one without."""

    def make(image: Image, **config: Any) -> tuple[Engine, Engine]:
        model = tmp_path / "model.gguf"
        model.write_bytes(image.data)
        on, off = (
            open_engine(model, chunk_size=32, hooks=hooks, **config)
            for hooks in ("-sampling", "-rope,-sampling")
        )
        assert on.is_paged and off.is_paged
        return on, off

    return make


def test_no_head_of_an_engines_steps_is_outside_of_the_table(
    open_engine: OpenEngine, small_model: Path
) -> None:
    """Nor one of an idle lane, nor the last position of the context."""
    engine = open_engine(small_model, n_ctx=128)
    requests = [Request([3 + n] * (127 - n), max_tokens=1 + n, ignore_eos=True) for n in (0, 9, 20)]
    for completion in [engine.complete(request) for request in requests]:
        assert sum(len(chunk.token_ids) for chunk in completion) > 0
    assert engine.runner.rope_store_report()["n_layers"] > 0
    assert engine.runner.rope_counters() == {"lookups": 0, "fallbacks": 0, "out_of_bounds": 0}


def rms(x: NDArray[np.float64]) -> float:
    return float(np.sqrt((x * x).mean()))


@pytest.mark.parametrize(
    "kv_type", ["f16", "bf16", "q8_0", "q4_0", "q8_0:q4_0", "f16:q4_0", "q8_0:bf16"]
)
def test_every_kv_type_has_the_logits_of_llama_cpps_nodes(
    both: Callable[..., tuple[Engine, Engine]], kv_type: str
) -> None:
    on, off = both(llama(), kv_type=kv_type)
    logits, report = logits_of(on)
    stock_logits, stock_report = logits_of(off)
    assert report == {"n_layers": 2} | ALL_LAYERS
    assert stock_report["n_layers"] == 0
    assert on.backend["hooks"]["rope"] == "on" and off.backend["hooks"]["rope"] == "off"
    assert rms(logits - stock_logits) < 0.01  # the logits' own is about 1


PHI3 = Shape(arch="phi3", n_embd=128)


NO_ROPE = "queries do not come from a plain RoPE"
SHARED = "later layers read its cells"


@pytest.mark.parametrize(
    ("image", "kv_type", "n_layers", "n_stock", "reason"),
    [
        pytest.param(with_yarn(), "f16", 2, 0, "", id="yarn"),
        pytest.param(tiny_llama(shape=PHI3), "f16", 2, 0, "", id="phi3"),
        pytest.param(tiny_llama(shape=PHI3), "q8_0", 2, 0, "", id="phi3-q8_0"),
        pytest.param(windowed_models.gemma3(), "f16", 3, 0, "", id="gemma3"),
        pytest.param(windowed_models.gemma3(), "q8_0", 3, 0, "", id="gemma3-q8_0"),
        pytest.param(windowed_models.gemma2(), "q8_0", 2, 0, "", id="gemma2-q8_0"),
        pytest.param(windowed_models.gemma2(), "f16:q8_0", 2, 0, "", id="gemma2-f16-q8_0"),
        pytest.param(windowed_models.gpt_oss(), "bf16", 2, 0, "", id="gpt-oss-bf16"),
        pytest.param(windowed_models.cohere2(), "f16", 1, 1, NO_ROPE, id="cohere2"),
        pytest.param(windowed_models.gemma4(), "f16", 2, 2, SHARED, id="gemma4"),
        pytest.param(windowed_models.gemma4(), "q8_0", 2, 2, SHARED, id="gemma4-q8_0"),
    ],
)
def test_layers_that_fit_are_served_and_the_others_say_why_not(
    both: Callable[..., tuple[Engine, Engine]],
    image: Image,
    kv_type: str,
    n_layers: int,
    n_stock: int,
    reason: str,
) -> None:
    on, off = both(image, kv_type=kv_type)
    logits, report = logits_of(on)
    assert (report["n_layers"], report["n_stock"]) == (n_layers, n_stock), report["reason"]
    assert reason in report["reason"]
    if n_stock > 0:
        left = f"{n_stock} of {n_layers + n_stock} layers keep llama.cpp's RoPE and stores ("
        assert left + report["reason"] + ")" in on.backend["note"]
    assert rms(logits - logits_of(off)[0]) < 0.01


def test_positions_in_sections_are_left_to_llama_cpp(
    both: Callable[..., tuple[Engine, Engine]],
) -> None:
    on, off = both(qwen2vl())
    logits, report = logits_of(on)
    assert report["n_layers"] == 0 and "plain RoPE" in report["reason"]
    assert on.backend["hooks"]["rope"] == "unavailable"
    np.testing.assert_array_equal(logits, logits_of(off)[0])


@pytest.mark.parametrize("kv_type", ["f16", "q4_0"])
def test_text_is_that_of_llama_cpps_nodes(
    open_engine: OpenEngine, small_model: Path, kv_type: str
) -> None:
    texts = [
        greedy_text(open_engine(small_model, hooks=hooks, kv_type=kv_type), PROMPT[:20], 12)
        for hooks in ("-sampling,-matrices", "-rope,-sampling,-matrices")
    ]
    assert texts[0].agrees_with(texts[1], TIE)


@pytest.mark.parametrize(
    ("image", "n_layer", "kv_type", "n_gone"),
    [
        pytest.param(llama(), 2, "f16", 4, id="llama"),
        pytest.param(llama(), 2, "q8_0", 7, id="llama-q8_0"),
        pytest.param(windowed_models.gemma3(), 3, "f16", 9, id="gemma3"),
    ],
)
def test_in_a_captured_step_one_launch_stands_for_what_every_layer_had(
    emulated: EmulatedGpu,
    both: Callable[..., tuple[Engine, Engine]],
    image: Image,
    n_layer: int,
    kv_type: str,
    n_gone: int,
) -> None:
    """Two RoPEs and two stores; with quantized cells three rotations, too.

    Of Gemma also two norms, their weights, and a factor.
    """

    def counted(engine: Engine) -> tuple[int, int]:
        session = step_probe(engine)
        session.prefill(PROMPT[:8])
        for token in PROMPT[:4]:
            session.decode(token)
        session.logits()  # nothing is queued any more
        emulated.reset_counters()
        session.decode(5)
        session.logits()
        now = emulated.counters()
        assert now["graphs_replayed"] == 1 and "graphs_run_eagerly" not in now
        return now["kernels"], now["stock_nodes"]

    on, off = both(image, kv_type=kv_type)
    kernels, stock_nodes = counted(on)
    kernels_without, stock_nodes_without = counted(off)
    assert kernels - kernels_without == n_layer
    assert stock_nodes_without - stock_nodes == n_layer * n_gone
