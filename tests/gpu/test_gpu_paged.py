"""Sequences in pages of a GPU's memory: the CPU's numbers and text, and memory that runs out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import windowed_models
from completions import assert_nothing_is_left, finish, prompt, start
from gguf_bytes import Image, Shape, tiny_llama
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu
from gpu_under_test import KIND
from greedy import GreedyText, text_of
from numpy.typing import NDArray
from stepping import step_probe

from orin_llm.engine import Engine, Hooks
from orin_llm.engine.config import HOOK_NAMES
from orin_llm.errors import OrinError

HOST_LOGITS = Hooks(frozenset(HOOK_NAMES) - {"sampling"})

# Of logits, whose own root mean square is about 1: keys and values that are rounded to another
# neighbour. A real GPU multiplies weights in lower precision than the CPU, too.
ROUNDING = {"f16": 2e-3, "bf16": 1e-2, "q8_0": 1e-2, "q4_0": 0.1}
MIXED = [("q8_0:q4_0", 16), ("q4_0:f16", 32), ("f16:q8_0", 8), ("bf16:q8_0", 8)]
WEIGHTS = 0.0 if KIND == "emulated" else 0.02

TIE = 0.01  # of log-probabilities

MODELS: dict[str, Callable[[], Image]] = {
    "heads of 64": lambda: tiny_llama(shape=Shape(n_embd=256)),  # as flash attention has them
    "one head for each": lambda: tiny_llama(shape=Shape(n_embd=128, n_head_kv=4)),
    "eight heads for one": lambda: tiny_llama(shape=Shape(n_embd=256, n_head=8, n_head_kv=1)),
    "window in some layers": windowed_models.gemma3,
    "window in all layers": partial(windowed_models.gemma3, pattern=0),
    "capped scores": windowed_models.gemma2,
    "sinks": windowed_models.gpt_oss,
    "shared keys and values": windowed_models.gemma4,
    # 64 tokens are 64 KiB of keys, a granule of the emulated GPU.
    "large rows": lambda: tiny_llama(shape=Shape(n_layer=1, n_embd=512, n_head=1, n_head_kv=1)),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("paged")

    def make(kind: str) -> Path:
        path = folder / f"{kind}.gguf"
        if not path.exists():
            path.write_bytes(MODELS[kind]().data)
        return path

    return make


def followed(engine: Engine, n_prompt: int = 50, n_decode: int = 6) -> NDArray[np.float64]:
    """Logits after a prompt and each of some tokens more: [1 + n_decode, n_vocab]."""
    session = step_probe(engine)
    session.prefill(prompt(1, n_prompt))
    rows = [session.logits()]
    for token in prompt(2, n_decode):
        session.decode(token)
        rows.append(session.logits())
    return np.array(rows, dtype=np.float64)


def difference(open_engine: OpenEngine, model: Path, **config: Any) -> float:
    """Root mean square, between the GPU's logits and the CPU's."""
    config = {"hooks": HOST_LOGITS, "chunk_size": 32, "n_ctx": 128, **config}
    on_gpu = open_engine(model, **config)
    on_cpu = open_engine(model, **config, gpu_layers=0)
    assert on_gpu.is_paged and on_gpu.model.device != "cpu"
    delta = followed(on_gpu) - followed(on_cpu)
    return float(np.sqrt((delta * delta).mean()))


# -- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kv_type, page_size", [("f16", 8), ("bf16", 16), ("q8_0", 8), ("q4_0", 64), *MIXED]
)
@pytest.mark.parametrize("kind", ["heads of 64", "one head for each"])
def test_logits_are_the_cpus(
    open_engine: OpenEngine, model: Callable[[str], Path], kind: str, kv_type: str, page_size: int
) -> None:
    delta = difference(open_engine, model(kind), kv_type=kv_type, page_size=page_size)
    assert delta < max(ROUNDING[name] for name in kv_type.split(":")) + WEIGHTS


@pytest.mark.parametrize(("kv_type", "rounding"), [("f16", "f16"), ("f16:q8_0", "q8_0")])
@pytest.mark.parametrize("kind", list(MODELS)[2:-1])
def test_logits_are_the_cpus_for_every_kind_of_attention(
    open_engine: OpenEngine, model: Callable[[str], Path], kind: str, kv_type: str, rounding: str
) -> None:
    delta = difference(open_engine, model(kind), kv_type=kv_type)
    assert delta < ROUNDING[rounding] + WEIGHTS


@pytest.mark.parametrize(
    "kind, hooks, state",
    [
        ("heads of 64", HOST_LOGITS.enabled, "on"),
        ("heads of 64", HOST_LOGITS.enabled - {"gather"}, "off"),
        ("one head for each", HOST_LOGITS.enabled, "unavailable"),  # heads of 32
    ],
)
def test_prompts_are_gathered_where_flash_attention_has_their_heads(
    open_engine: OpenEngine,
    model: Callable[[str], Path],
    kind: str,
    hooks: frozenset[str],
    state: str,
) -> None:
    engine = open_engine(model(kind), hooks=Hooks(hooks))
    backend: Any = engine.backend
    assert backend["hooks"]["gather"] == state
    assert difference(open_engine, model(kind), hooks=Hooks(hooks)) < ROUNDING["f16"] + WEIGHTS


def test_without_flash_attention_no_prompt_is_gathered_for_it(
    open_engine: OpenEngine, model: Callable[[str], Path]
) -> None:
    path = model("heads of 64")
    backend: Any = open_engine(path, flash_attention="off").backend
    assert backend["hooks"]["gather"] == "unavailable"
    assert "prompts' attention reads the pages, as flash attention is off" in backend["note"]
    delta = difference(open_engine, path, flash_attention="off")
    assert delta < ROUNDING["f16"] + WEIGHTS


@pytest.mark.parametrize("least", [0, 20])
def test_prompts_are_gathered_from_so_many_tokens_on(
    open_engine: OpenEngine, model: Callable[[str], Path], least: int
) -> None:
    # A prompt of 50 tokens in steps of 32 and 18.
    path, kernels = model("heads of 64"), f"gather_tokens={least}"
    backend: Any = open_engine(path, kernels=kernels).backend
    assert (backend["hooks"]["gather"] == "on") == (least > 0)
    assert difference(open_engine, path, kernels=kernels) < ROUNDING["f16"] + WEIGHTS


def test_stock_attention_over_the_pool_reads_what_was_written_there(
    open_engine: OpenEngine, model: Callable[[str], Path]
) -> None:
    cells = Hooks(HOST_LOGITS.enabled - {"attention"})
    delta = difference(open_engine, model("one head for each"), hooks=cells, kv_type="bf16")
    assert delta < ROUNDING["bf16"] + WEIGHTS


# -- text -----------------------------------------------------------------------------------------


def texts(engine: Engine, prompts: list[list[int]], n: int) -> list[GreedyText]:
    """Of completions that are computed together."""
    together = [start(engine, tokens, n, logprobs=2) for tokens in prompts]
    return [text_of(completion) for completion in together]


def assert_same(ours: list[GreedyText], theirs: list[GreedyText]) -> None:
    """The same tokens, up to a place where two are as likely."""
    for one, other in zip(ours, theirs, strict=True):
        assert one.agrees_with(other, TIE)


@pytest.mark.parametrize("kind", ["heads of 64", "one head for each"])
def test_completions_in_one_batch_write_what_they_write_on_the_cpu(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Callable[[str], Path], kind: str
) -> None:
    lengths = [1, 5, 16, 33, 31]
    prompts = [prompt(seed, n) for seed, n in enumerate(lengths)]
    on_gpu = open_engine(model(kind), chunk_size=32)
    on_cpu = open_engine(model(kind), gpu_layers=0)
    assert_same(texts(on_gpu, prompts, 16), texts(on_cpu, prompts, 16))
    assert_nothing_is_left(on_gpu)


def test_a_step_with_more_positions_than_a_context_reads_pages(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Callable[[str], Path]
) -> None:
    prompts = [prompt(seed, 50) for seed in range(6)]  # in the end 306; at most 256 are gathered
    on_gpu, on_cpu = (
        open_engine(model("heads of 64"), n_ctx=64, gpu_layers=layers) for layers in (-1, 0)
    )
    assert_same(texts(on_gpu, prompts, 4), texts(on_cpu, prompts, 4))


def test_more_than_fit_in_memory_take_turns_and_lose_nothing(
    emulated: EmulatedGpu, open_engine: OpenEngine, tiny_model: Path
) -> None:
    prompts = [prompt(seed, 24) for seed in range(3)]
    on_gpu = open_engine(tiny_model, n_ctx=64, chunk_size=32, kv_memory=96)
    on_cpu = open_engine(tiny_model, n_ctx=64, gpu_layers=0)
    assert_same(texts(on_gpu, prompts, 36), texts(on_cpu, prompts, 36))
    assert on_gpu.stats()["requests"]["preempted"] > 0
    assert_nothing_is_left(on_gpu)


def test_a_shared_beginning_is_computed_once(
    emulated: EmulatedGpu, open_engine: OpenEngine, tiny_model: Path
) -> None:
    system = prompt(1, 64)
    prompts = [[*system, 110 + i, 111] for i in range(3)]
    on_gpu, on_cpu = open_engine(tiny_model), open_engine(tiny_model, gpu_layers=0)
    finish(start(on_gpu, [*system, 101], 1))
    together = [start(on_gpu, tokens, 8) for tokens in prompts]
    written = [list(finish(completion)) for completion in together]
    assert written == [text.ids for text in texts(on_cpu, prompts, 8)]
    assert [completion.result.cached_tokens for completion in together] == [64] * 3


def test_rows_of_the_cache_can_be_read_and_put_back(
    open_engine: OpenEngine, tiny_model: Path
) -> None:
    tokens = prompt(1, 70)
    engine, other = open_engine(tiny_model), open_engine(tiny_model, page_size=8)
    text = finish(start(engine, tokens, 4))
    rows = engine.read_kv(tokens, 0, 70)
    assert len(rows) == 64 * engine.kv_row_bytes
    assert other.write_kv(tokens[:64], 0, rows) == 64
    assert other.read_kv(tokens, 0, 70) == rows
    completion = start(other, tokens, 4)
    assert finish(completion) == text
    assert completion.result.cached_tokens == 64


# -- memory ---------------------------------------------------------------------------------------


def test_memory_grows_with_use_and_is_given_back(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Callable[[str], Path]
) -> None:
    engine = open_engine(model("large rows"))
    finish(start(engine, prompt(1, 8), 2))
    at_first = engine.stats()["kv"]["bytes_committed"]
    finish(start(engine, prompt(2, 180), 2))
    grown = engine.stats()["kv"]["bytes_committed"]
    assert at_first < grown
    free = emulated.free_memory()
    engine.forget()
    assert engine.stats()["kv"]["bytes_committed"] == at_first
    assert emulated.free_memory() - free == grown - at_first


def test_memory_is_at_most_a_granule_more_for_keys_and_for_values_of_each_layer(
    emulated: EmulatedGpu, open_engine: OpenEngine, tiny_model: Path
) -> None:
    granule, n_ranges = 64 << 10, 2 * 2  # the emulated driver's; of two layers
    engine = open_engine(tiny_model, kv_memory=256)
    finish(start(engine, prompt(1, 1), 1))
    kv = engine.stats()["kv"]
    assert kv["bytes_committed"] == n_ranges * granule > kv["bytes_reserved"]
    for n in (50, 200):
        finish(start(engine, prompt(n, n), 2))
        kv = engine.stats()["kv"]
        page = kv["bytes_reserved"] // engine.kv_pages
        rounded = n_ranges * (granule - 1)
        assert kv["bytes_committed"] <= kv["bytes_reserved"] + page + rounded


def test_without_attention_memory_does_not_grow_and_says_why(
    emulated: EmulatedGpu, open_engine: OpenEngine, tiny_model: Path
) -> None:
    backend: Any = open_engine(tiny_model, hooks="-attention").backend
    assert backend["hooks"]["growth"] == "unavailable"
    assert backend["kv_memory"] == "one allocation: attention, which growth needs, is switched off"


def test_memory_may_be_one_allocation(
    emulated: EmulatedGpu, open_engine: OpenEngine, tiny_model: Path
) -> None:
    growing, whole = open_engine(tiny_model), open_engine(tiny_model, hooks="-growth")
    for engine, state, how in ((growing, "on", "virtual memory"), (whole, "off", "one allocation")):
        backend: Any = engine.backend
        assert backend["hooks"]["growth"] == state and how in backend["kv_memory"]
    committed = whole.stats()["kv"]["bytes_committed"]
    assert committed >= whole.stats()["kv"]["bytes_reserved"]
    assert finish(start(whole, prompt(1, 20), 4)) == finish(start(growing, prompt(1, 20), 4))
    assert whole.stats()["kv"]["bytes_committed"] == committed


def test_too_little_memory_fails_who_asks_for_it_and_nobody_else(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Callable[[str], Path]
) -> None:
    engine = open_engine(model("large rows"))
    text = finish(start(engine, prompt(1, 8), 6))
    emulated.leave_free(0)
    with pytest.raises(OrinError, match=r"KV cache cannot get .* 0 MiB are free .*--kv-memory"):
        finish(start(engine, prompt(2, 180), 2))
    assert finish(start(engine, prompt(1, 8), 6)) == text
    emulated.set_memory()
    finish(start(engine, prompt(2, 180), 2))
    assert_nothing_is_left(engine)
