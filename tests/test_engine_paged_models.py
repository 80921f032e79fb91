"""Which models are paged, and that those that are get stock's numbers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import windowed_models
from gguf_bytes import F32, Image, Shape, Tensor, array, boolean, tiny_latent, tiny_llama, u32
from numpy.typing import NDArray
from stepping import step_probe
from tiny_encoder import tiny_encoder

from orin_llm.engine import Engine, EngineConfig, Hooks, Request, SamplingParams
from orin_llm.errors import ModelFileError

PAGED = Hooks()
STOCK = Hooks(frozenset({"rope"}))
PROMPT = [100 + 7 * i % 190 for i in range(90)]


def engine_with(model: Path, hooks: Hooks) -> Engine:
    return Engine(model, EngineConfig(n_ctx=128, chunk_size=32, threads=1, hooks=hooks))


def tiny_of(arch: str) -> Image:
    return tiny_llama(shape=Shape(arch=arch))


def with_positions_in_sections() -> Image:
    shape = Shape(arch="qwen2vl")
    sizes = {"attn_q": 64, "attn_k": 32, "attn_v": 32}
    zeros = {
        f"blk.{layer}.{name}.bias": Tensor(f"blk.{layer}.{name}.bias", (size,))
        for layer in range(shape.n_layer)
        for name, size in sizes.items()
    }
    sections = {"qwen2vl.rope.dimension_sections": array("i32", [2, 3, 3, 0])}
    return tiny_llama(shape=shape, metadata=sections, tensors=zeros)


def with_more_heads_in_the_second_layer() -> Image:
    sizes = {"attn_q": (64, 128), "attn_k": (64, 64), "attn_v": (64, 64), "attn_output": (128, 64)}
    rng = np.random.default_rng(1)
    tensors = {}
    for name, size in sizes.items():
        values = rng.standard_normal(math.prod(size)) / math.sqrt(size[0])
        full = f"blk.1.{name}.weight"
        tensors[full] = Tensor(full, size, F32, values.astype("<f4").tobytes())
    metadata = {
        "deci.attention.head_count": array("u32", [4, 8]),
        "deci.attention.head_count_kv": array("u32", [2, 4]),
        "deci.attention.key_length": u32(16),
        "deci.attention.value_length": u32(16),
        "deci.feed_forward_length": array("u32", [96, 96]),
    }
    return tiny_llama(shape=Shape(arch="deci"), metadata=metadata, tensors=tensors)


def without_heads_in_the_second_layer() -> Image:
    tensors: dict[str, Tensor | None] = {
        f"blk.1.{name}.weight": None
        for name in ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output")
    }
    metadata = {
        "deci.attention.head_count": array("u32", [4, 0]),
        "deci.attention.head_count_kv": array("u32", [2, 0]),
        "deci.attention.key_length": u32(16),
        "deci.attention.value_length": u32(16),
        "deci.feed_forward_length": array("u32", [96, 96]),
    }
    return tiny_llama(shape=Shape(arch="deci"), metadata=metadata, tensors=tensors)


def logits(engine: Engine) -> NDArray[np.float64]:
    session = step_probe(engine)
    session.prefill(PROMPT)
    rows = [session.logits()]
    for token in PROMPT[:8]:
        session.decode(token)
        rows.append(session.logits())
    return np.array(rows, dtype=np.float64)


@pytest.mark.parametrize(
    "image",
    [
        with_positions_in_sections(),
        with_more_heads_in_the_second_layer(),
        without_heads_in_the_second_layer(),
        tiny_llama(shape=Shape(arch="phi3"), metadata={"phi3.attention.sliding_window": u32(24)}),
    ],
    ids=["multi-section RoPE", "head counts by layer", "a layer without heads", "unused window"],
)
def test_paged_models_have_stocks_logits_within_rounding(tmp_path: Path, image: Image) -> None:
    model = tmp_path / "paged.gguf"
    model.write_bytes(image.data)
    with engine_with(model, PAGED) as engine, engine_with(model, STOCK) as stock:
        assert engine.is_paged
        difference = logits(engine) - logits(stock)
    assert np.sqrt((difference**2).mean()) < 0.01  # the logits' own is about 1


def answer(engine: Engine) -> tuple[int, ...]:
    completion = engine.complete(Request(PROMPT[:40], SamplingParams(temperature=0), max_tokens=4))
    for _ in completion:
        pass
    return completion.result.token_ids


OTHER_MODELS = {
    "odd head size": tiny_llama(n_embd=48, n_head=4, n_head_kv=2),  # heads of 12
    "ALiBi": tiny_of("refact"),
    "windows that do not slide": windowed_models.llama4(),
    "latent attention": tiny_latent(),
    "bidirectional attention": tiny_llama(metadata={"llama.attention.causal": boolean(False)}),
    "attention within the step": tiny_of("llama-embed"),
}


@pytest.mark.parametrize("kind", OTHER_MODELS)
def test_other_models_run_on_llama_cpps_own_memory_and_say_so(tmp_path: Path, kind: str) -> None:
    model = tmp_path / "other.gguf"
    model.write_bytes(OTHER_MODELS[kind].data)
    with engine_with(model, PAGED) as engine, engine_with(model, STOCK) as stock:
        assert not engine.is_paged
        states = engine.backend["hooks"]
        assert isinstance(states, dict)
        assert states.pop("rope") == "on"
        assert set(states.values()) == {"unavailable"}
        assert answer(engine) == answer(stock)


@pytest.mark.parametrize("hooks", [PAGED, STOCK], ids=["hooks on", "stock"])
def test_a_model_without_memory_of_a_text_is_refused(tmp_path: Path, hooks: Hooks) -> None:
    model = tmp_path / "encoder.gguf"
    model.write_bytes(tiny_encoder().data)
    with pytest.raises(ModelFileError, match="does not write text token by token"):
        engine_with(model, hooks)
