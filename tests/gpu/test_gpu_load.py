"""Weights on their way to a GPU: read into pinned memory, copied by the GPU while more is read."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gguf_bytes import Shape, tiny_llama
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu
from greedy import GreedyText, greedy_text
from load_support import break_value, make_cold, stopped_loads

from orin_llm import _native
from orin_llm.errors import ModelFileError, OrinError
from orin_llm.host import page_cache

PROMPT = [1, 7, 200, 42, 299, 5]
ALL_ON_GPU = _native.ModelParams(gpu_layers=-1)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """13 MiB, many more pieces than there are slots to read them into."""
    path = tmp_path_factory.mktemp("models") / "large.gguf"
    shape = Shape(n_embd=256, n_head=4, n_head_kv=2, n_ff=2048)
    path.write_bytes(tiny_llama(shape=shape).data)
    return path


def write(open_engine: OpenEngine, model: Path, **config: object) -> GreedyText:
    engine = open_engine(model, n_ctx=64, hooks="none", **config)
    text = greedy_text(engine, PROMPT, 3)
    engine.close()
    return text


# As late as may be, and at random times: a slot that is read into too early gives other weights.
@pytest.mark.parametrize("use_mmap", [True, False])
@pytest.mark.parametrize("schedule", [1, 2, 3])
def test_weights_are_the_same_however_late_the_gpu_copies(
    emulated: EmulatedGpu, open_engine: OpenEngine, large: Path, use_mmap: bool, schedule: int
) -> None:
    emulated.set_schedule(0)
    expected = write(open_engine, large)
    emulated.set_schedule(schedule)
    assert write(open_engine, large, use_mmap=use_mmap) == expected


@pytest.mark.parametrize("use_mmap", [True, False])
def test_layers_may_be_loaded_to_both(
    emulated: EmulatedGpu, open_engine: OpenEngine, large: Path, use_mmap: bool
) -> None:
    expected = write(open_engine, large)
    text = write(open_engine, large, gpu_layers=1, use_mmap=use_mmap)
    assert text.ids == expected.ids
    assert text.margins == pytest.approx(expected.margins, rel=1e-4)


def test_nothing_waits_for_a_single_copy(emulated: EmulatedGpu, large: Path) -> None:
    model = _native.Model(str(large), ALL_ON_GPU)
    counted = emulated.counters()
    assert "blocking_sets" not in counted
    assert counted["async_sets"] >= 20
    assert counted["events_recorded"] >= 12  # one for a piece
    assert "pageable_bytes_to_device" not in counted
    assert model.load_report["upload_ms"] > 0
    assert model.load_report["bytes"] > large.stat().st_size - (64 << 10)


def test_a_model_on_the_gpu_leaves_no_second_copy_in_the_page_cache(
    tmp_path: Path, large: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(large.read_bytes())
    make_cold(path)
    model = _native.Model(str(path), _native.ModelParams(gpu_layers=-1, use_mmap=False))
    assert (
        page_cache.cached_bytes(path) < 1 << 20
    )  # of 13 MiB: the header and what was read ahead of it
    assert model.load_report["direct_bytes"] > 0


def test_without_pinned_memory_a_model_is_loaded_all_the_same(
    emulated: EmulatedGpu, open_engine: OpenEngine, large: Path
) -> None:
    expected = write(open_engine, large)
    emulated.set_pinned_limit(0)
    assert write(open_engine, large) == expected


def test_models_may_be_loaded_at_once(
    emulated: EmulatedGpu, open_engine: OpenEngine, large: Path
) -> None:
    expected = write(open_engine, large)
    emulated.set_schedule(5)
    with ThreadPoolExecutor(3) as pool:
        texts = [pool.submit(write, open_engine, large) for _ in range(6)]
    assert [text.result() for text in texts] == [expected] * 6


def test_a_load_that_is_stopped_leaves_nothing_on_the_gpu(
    emulated: EmulatedGpu, large: Path
) -> None:
    _native.Model(str(large), ALL_ON_GPU)
    gc.collect()
    free = emulated.free_memory()
    threads = len(os.listdir("/proc/self/task"))
    for n in stopped_loads(lambda progress: _native.Model(str(large), ALL_ON_GPU, progress)):
        assert emulated.free_memory() == free
        assert len(os.listdir("/proc/self/task")) == threads
        emulated.set_schedule(n % 4)


@pytest.mark.parametrize("check_tensors", [True, False])
def test_a_file_that_shrinks_leaves_nothing_on_the_gpu(
    emulated: EmulatedGpu, tmp_path: Path, large: Path, check_tensors: bool
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(large.read_bytes())
    free = emulated.free_memory()
    params = _native.ModelParams(gpu_layers=-1, check_tensors=check_tensors)
    with pytest.raises(ModelFileError, match="ends at byte 9000001") as caught:
        _native.Model(str(path), params, lambda _: os.truncate(path, 9_000_001))
    assert caught.value.offset == 9_000_001
    assert emulated.free_memory() == free


def test_a_value_that_is_not_finite_is_found_on_its_way(tmp_path: Path, large: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(large.read_bytes())
    tensor = next(t for t in _native.check_gguf(path).tensors if t.name == "blk.1.ffn_up.weight")
    break_value(path, tensor.offset + tensor.nbytes // 2 // 4 * 4)
    _native.Model(str(path), ALL_ON_GPU)
    with pytest.raises(ModelFileError, match="not finite") as caught:
        _native.Model(str(path), _native.ModelParams(gpu_layers=-1, check_tensors=True))
    assert caught.value.field == tensor.name


def test_any_call_of_the_gpu_that_fails_ends_the_load_and_leaves_nothing(
    emulated: EmulatedGpu, large: Path
) -> None:
    models = [_native.Model(str(large), ALL_ON_GPU)]
    models.clear()
    free = emulated.free_memory()
    n_failed = 0
    n = 0
    has_failed = True
    while has_failed:
        n += 1
        emulated.reset_counters()
        emulated.fail_call(n)
        try:
            models.append(_native.Model(str(large), ALL_ON_GPU))
        except OrinError as error:
            assert "CUDA error" in str(error) or "GPU" in str(error)
            n_failed += 1
        has_failed = emulated.counters().get("asked_failures", 0) > 0
        emulated.fail_call(0)  # before the model is freed: llama.cpp cannot be told that this fails
        models.clear()
        assert emulated.free_memory() == free
    assert n_failed > 30
    assert n - n_failed < 20  # what cannot be freed of the staging memory, and what has another way
