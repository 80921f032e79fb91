"""Loads through our reader: the same model whichever way, nothing left of one that ends early."""

from __future__ import annotations

import math
import operator
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf_bytes import (
    BLOCKS,
    Q4_K,
    Image,
    Shape,
    Tensor,
    model_tensors,
    tiny_llama,
    u32,
)
from greedy import greedy_text
from load_support import make_cold, needs_populating, stopped_loads
from models_support import write_split_model
from processes import CLI

from orin_llm import _native
from orin_llm.bench.stock import StockPeer
from orin_llm.engine import Engine, EngineConfig
from orin_llm.errors import ModelFileError
from orin_llm.models.random_blocks import random_blocks

PROMPT = [1, 7, 200, 42, 299, 5]
WAYS = [
    pytest.param({}, id="mapped"),
    pytest.param({"use_mmap": False}, id="read"),
    pytest.param({"check_tensors": True}, id="mapped, checked"),
    pytest.param({"use_mmap": False, "check_tensors": True}, id="read, checked"),
]
each_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(scope="module")
def synth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two megabytes of Q4_K and Q6_K, which llama.cpp repacks on most processors."""
    path = tmp_path_factory.mktemp("models") / "synth.gguf"
    subprocess.run([*CLI, "models", "synth", "--shape", "tiny", "-q", str(path)], check=True)
    return path


def load(
    path: Path, way: dict[str, bool], progress: Callable[[float], None] | None = None
) -> _native.Model:
    return _native.Model(str(path), _native.ModelParams(gpu_layers=0, **way), progress)


def left_of(path: Path) -> tuple[int, int, int]:
    """Threads of this process, files that it has open, and places where the file is mapped."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return (
        len(os.listdir("/proc/self/task")),
        len(os.listdir("/proc/self/fd")),
        maps.count(path.name),
    )


def assert_nothing_is_left(path: Path, before: tuple[int, int, int]) -> None:
    """A thread that was joined may be listed a moment longer."""
    end = time.monotonic() + 10
    while any(map(operator.gt, left := left_of(path), before)) and time.monotonic() < end:
        time.sleep(0.001)
    assert not any(map(operator.gt, left, before)), (left, before)


def in_blocks(name: str, size: tuple[int, ...]) -> Tensor:
    """Random weights in Q4_K."""
    nbytes = math.prod(size) // BLOCKS[Q4_K][0] * BLOCKS[Q4_K][1]
    chunks = random_blocks("Q4_K", nbytes, std=size[0] ** -0.5, seed=1, name=name)
    return Tensor(name, size, Q4_K, b"".join(bytes(chunk) for chunk in chunks))


def repacked_model(n_expert: int) -> Image:
    """Megabytes of Q4_K: matrices that are cut into pieces, and repacked on most processors."""
    shape = Shape(n_embd=256, n_head=4, n_head_kv=2, n_ff=4096 if n_expert == 0 else 512)
    tensors: dict[str, Tensor | None] = {
        tensor.name: in_blocks(tensor.name, tensor.shape)
        for tensor in model_tensors(shape)
        if len(tensor.shape) == 2
    }
    if n_expert == 0:
        return tiny_llama(shape=shape, tensors=tensors)
    sizes = {
        "ffn_gate": (shape.n_embd, shape.n_ff, n_expert),
        "ffn_up": (shape.n_embd, shape.n_ff, n_expert),
        "ffn_down": (shape.n_ff, shape.n_embd, n_expert),
    }
    for layer in range(shape.n_layer):
        prefix = f"blk.{layer}."
        router = f"{prefix}ffn_gate_inp.weight"
        tensors[router] = in_blocks(router, (shape.n_embd, n_expert))
        for name, size in sizes.items():
            experts = f"{prefix}{name}_exps.weight"
            tensors |= {f"{prefix}{name}.weight": None, experts: in_blocks(experts, size)}
    counts = {"llama.expert_count": u32(n_expert), "llama.expert_used_count": u32(2)}
    return tiny_llama(shape=shape, tensors=tensors, metadata=counts)


@each_way
@pytest.mark.parametrize("n_expert", [0, 8], ids=["dense", "experts"])
def test_logits_are_those_of_a_stock_load_bit_for_bit(
    needs_stock: None, tmp_path: Path, way: dict[str, bool], n_expert: int
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(repacked_model(n_expert).data)
    with StockPeer(path, n_ctx=64) as peer:
        expected = peer.greedy(PROMPT, 4)
    config = EngineConfig(
        n_ctx=64,
        threads=1,
        hooks="none",
        use_mmap=way.get("use_mmap", True),
        check_tensors=way.get("check_tensors", False),
    )
    with Engine(path, config) as engine:
        text = greedy_text(engine, PROMPT, 4)
    assert (text.ids, text.margins) == expected


@each_way
def test_progress_is_in_bytes_and_ends_at_all_of_them(synth: Path, way: dict[str, bool]) -> None:
    heard: list[float] = []
    report = load(synth, way, heard.append).load_report
    assert heard[0] == 0.0
    assert heard[-1] == 1.0
    assert heard == sorted(heard)
    assert len(set(heard)) >= 3  # the file is more than one piece
    tensors = {t.name: t.nbytes for t in _native.check_gguf(synth).tensors}
    # Where the processor repacks Q6_K, a table that is the output matrix, too, is loaded twice.
    assert report["bytes"] - sum(tensors.values()) in (0, tensors["token_embd.weight"])


@each_way
def test_a_load_can_be_stopped_whenever_progress_is_told_and_leaves_nothing(
    synth: Path, way: dict[str, bool]
) -> None:
    load(synth, way)
    before = left_of(synth)
    for _ in stopped_loads(lambda progress: load(synth, way, progress)):
        assert_nothing_is_left(synth, before)


@each_way
def test_a_model_in_parts_is_loaded_whole(tmp_path: Path, way: dict[str, bool]) -> None:
    paths = write_split_model(tmp_path)
    header = _native.check_gguf(paths[0])
    assert load(paths[0], way).load_report["bytes"] == sum(t.nbytes for t in header.tensors)
    if not way:
        needs_populating(tmp_path)
    # Where the second part is cut while the first is read, the second is named.
    with pytest.raises(ModelFileError, match="ends at byte") as caught:
        load(paths[0], way, lambda _: os.truncate(paths[1], 4096))
    assert caught.value.path == str(paths[1])


@each_way
def test_a_file_that_shrinks_while_it_is_read_is_an_error_that_names_file_and_offset(
    tmp_path: Path, synth: Path, way: dict[str, bool]
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(synth.read_bytes())
    end = _native.check_gguf(path).data_offset + (400 << 10) + 1000
    before = left_of(path)
    with pytest.raises(ModelFileError, match=f"ends at byte {end}") as caught:
        load(path, way, lambda _: os.truncate(path, end))
    assert caught.value.path == str(path)
    assert caught.value.offset == end
    assert_nothing_is_left(path, before)


@pytest.mark.parametrize("use_mmap", [True, False])
@pytest.mark.parametrize(
    ("type_", "block", "scale"), [("F32", 4, 2), ("Q4_K", 144, 0), ("Q6_K", 210, 208)]
)
def test_a_tensor_with_a_value_that_is_not_finite_is_refused_where_that_is_checked(
    tmp_path: Path, synth: Path, use_mmap: bool, type_: str, block: int, scale: int
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(synth.read_bytes())
    tensor = [t for t in _native.check_gguf(path).tensors if t.type == type_][-1]
    at = tensor.offset + tensor.nbytes - block + scale
    with path.open("r+b") as file:
        file.seek(at)
        file.write(np.float16(np.inf).tobytes() if type_ != "F32" else b"\xff\x7f")
    load(path, {"use_mmap": use_mmap})
    before = left_of(path)
    with pytest.raises(ModelFileError, match="not finite") as caught:
        load(path, {"use_mmap": use_mmap, "check_tensors": True})
    assert caught.value.field == tensor.name
    assert caught.value.offset == tensor.offset + tensor.nbytes - block
    assert_nothing_is_left(path, before)


def test_what_is_not_cached_is_read_around_the_page_cache_unless_it_is_mapped(
    tmp_path: Path, synth: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(synth.read_bytes())
    make_cold(path)
    report = load(path, {"use_mmap": False}).load_report
    if report["direct_bytes"] == 0:
        pytest.skip("this file system has no direct reads")
    assert report["direct_bytes"] > report["bytes"] // 2  # the header's pages are cached
    path.read_bytes()
    assert load(path, {"use_mmap": False}).load_report["direct_bytes"] == 0
    assert load(path, {}).load_report["direct_bytes"] == 0
