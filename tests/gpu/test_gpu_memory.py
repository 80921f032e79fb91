"""A GPU that fails or has no memory: an error that says what to do, an engine that lives on."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from completions import assert_nothing_is_left, finish, prompt, settle, start
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu

from orin_llm.errors import OrinError


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


def test_the_gpus_free_memory_limits_the_kv_cache(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    emulated.set_memory(16 << 20)
    engine = open_engine(model, max_batch=64, gpu_layers=-1)
    assert engine.kv_pages * engine.config.page_size * engine.kv_row_bytes < 8 << 20
    assert engine.kv_pages > 16
