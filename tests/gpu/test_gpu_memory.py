"""A GPU that fails or has no memory: an error that says what to do, an engine that lives on."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from completions import assert_nothing_is_left, finish, prompt, settle, start
from gguf_bytes import Shape, tiny_llama
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu

from orin_llm.errors import OrinError


@pytest.fixture(scope="module")
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer with rows of K and V so long that a granule holds few tokens."""
    path = tmp_path_factory.mktemp("models") / "wide.gguf"
    shape = Shape(n_layer=1, n_embd=512, n_head=1, n_head_kv=1)
    path.write_bytes(tiny_llama(shape=shape).data)
    return path


def bytes_of_an_engine(emulated: EmulatedGpu, open_engine: OpenEngine, model: Path) -> int:
    before = emulated.free_memory()
    engine = open_engine(model)
    used = before - emulated.free_memory()
    engine.close()
    assert emulated.free_memory() == before
    return used


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.8, 0.97])
def test_an_engine_that_does_not_fit_is_refused_and_leaves_nothing(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path, share: float
) -> None:
    room = int(share * bytes_of_an_engine(emulated, open_engine, model))
    emulated.leave_free(room)
    before = emulated.free_memory()
    with pytest.raises(OrinError, match=r"B (is available|of .*are free).*([Ss]maller|[Ll]ower)"):
        open_engine(model)
    gc.collect()  # the error's frames hold what was loaded
    assert emulated.free_memory() == before
    emulated.set_memory()
    assert len(finish(start(open_engine(model), prompt(1, 20), 3))) == 3


def test_a_step_without_memory_ends_its_completions_and_no_others(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model)
    emulated.leave_free(0)
    with pytest.raises(OrinError, match=r"MiB .* are free .*lower --kv-memory"):
        finish(start(engine, prompt(1, 200), 10))
    settle(engine)
    assert_nothing_is_left(engine)
    emulated.set_memory()
    other = open_engine(model)
    assert finish(start(engine, prompt(1, 200), 5)) == finish(start(other, prompt(1, 200), 5))


@pytest.mark.parametrize("hooks", ["all", "none"])
def test_an_engine_without_layers_on_the_gpu_leaves_it_alone(
    emulated: EmulatedGpu, open_engine: OpenEngine, small_model: Path, hooks: str
) -> None:
    free = emulated.free_memory()
    engine = open_engine(small_model, gpu_layers=0, hooks=hooks)
    finish(start(engine, prompt(1, 200), 3))  # products of 32 rows go to any GPU that is open
    assert emulated.counters() == {}
    assert emulated.free_memory() == free


@pytest.mark.parametrize("hooks", ["all", "-sampling"])
def test_cached_prompts_go_where_the_kv_cache_cannot_grow(
    emulated: EmulatedGpu, open_engine: OpenEngine, wide_model: Path, hooks: str
) -> None:
    plenty = open_engine(wide_model, kv_memory=4096)
    engine = open_engine(wide_model, kv_memory=4096, hooks=hooks)
    finish(start(engine, prompt(0, 200), 4))
    emulated.leave_free(0)
    texts = [finish(start(engine, prompt(i, 200), 4)) for i in range(1, 8)]
    kv = engine.stats()["kv"]
    assert kv["evictions"] > 0
    assert_nothing_is_left(engine)
    emulated.set_memory()
    assert texts == [finish(start(plenty, prompt(i, 200), 4)) for i in range(1, 8)]
    before = kv["bytes_committed"]
    for i in range(20, 24):
        finish(start(engine, prompt(i, 200), 4))
    assert engine.stats()["kv"]["bytes_committed"] > before  # memory is back


@pytest.mark.parametrize("hooks", ["all", "-sampling"])
def test_completions_give_way_where_the_kv_cache_cannot_grow(
    emulated: EmulatedGpu, open_engine: OpenEngine, wide_model: Path, hooks: str
) -> None:
    asked = [(prompt(i, 60), 100) for i in range(1, 4)]
    plenty = open_engine(wide_model, kv_memory=4096, max_batch=4)
    expected = [finish(start(plenty, tokens, n)) for tokens, n in asked]
    engine = open_engine(wide_model, kv_memory=4096, max_batch=4, hooks=hooks)
    finish(start(engine, prompt(0, 200), 40))  # there is memory for one of them
    emulated.leave_free(0)
    completions = [start(engine, tokens, n) for tokens, n in asked]
    assert [finish(completion) for completion in completions] == expected
    assert sum(completion.result.preemptions for completion in completions) > 0
    assert_nothing_is_left(engine)


def test_what_does_not_fit_alone_where_the_kv_cache_cannot_grow_ends_alone(
    emulated: EmulatedGpu, open_engine: OpenEngine, wide_model: Path
) -> None:
    plenty = open_engine(wide_model, kv_memory=4096)
    expected = finish(start(plenty, prompt(2, 30), 30))
    engine = open_engine(wide_model, kv_memory=4096)
    finish(start(engine, prompt(0, 100), 2))
    emulated.leave_free(0)
    large = start(engine, prompt(1, 200), 8)
    small = start(engine, prompt(2, 30), 30)
    assert finish(small) == expected
    with pytest.raises(OrinError, match=r"MiB .* are free .*lower --kv-memory"):
        finish(large)
    settle(engine)
    assert_nothing_is_left(engine)
    emulated.set_memory()
    assert finish(start(engine, prompt(1, 200), 8)) == finish(start(plenty, prompt(1, 200), 8))


def test_the_gpus_free_memory_limits_the_kv_cache(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    emulated.set_memory(16 << 20)
    engine = open_engine(model, max_batch=64, gpu_layers=-1)
    assert engine.kv_pages * engine.config.page_size * engine.kv_row_bytes < 8 << 20
    assert engine.kv_pages > 16
