"""Calls of CUDA that fail, one after another. test_gpu_failures.py runs these."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
from completions import assert_nothing_is_left, finish, prompt, settle, start
from gguf_bytes import Shape, tiny_llama
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu

from orin_llm.engine import Engine
from orin_llm.errors import OrinError

Texts = list[tuple[int, ...]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "failures.gguf"
    shape = Shape(n_embd=128, n_head=2, n_head_kv=1, n_layer=1)
    path.write_bytes(tiny_llama(shape=shape).data)
    return path


def write(engine: Engine, seeds: tuple[int, int] = (1, 2)) -> Texts:
    """A step with prompt tokens, then steps that are captured and replayed, two under way."""
    started = [start(engine, prompt(seed, 6), 4) for seed in seeds]
    return [finish(completion) for completion in started]


def each_call(emulated: EmulatedGpu, work: Callable[[], object], step: int = 1) -> list[str]:
    """Do the work again and again, the first call failing, the second ...: what was said of each.

    It ends with a time at which none failed.
    """
    said = []
    n = 1
    while True:
        emulated.reset_counters()
        emulated.fail_call(n)
        try:
            work()
            said.append("")
        except OrinError as error:
            said.append(str(error))
        has_failed = emulated.counters().get("asked_failures", 0) > 0
        emulated.fail_call(0)
        if not has_failed:
            assert said.pop() == "", said
            return said
        n += step


# Not "none": llama.cpp loses its own KV cache's memory when clearing that fails.
@pytest.mark.parametrize("hooks", ["all", "-growth"])
def test_an_engine_that_cannot_be_made_is_an_error_and_leaves_nothing(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path, hooks: str
) -> None:
    engine = open_engine(model, hooks=hooks)
    expected = write(engine)
    engine.close()
    free = emulated.free_memory()

    def make() -> None:
        try:
            engine = open_engine(model, hooks=hooks)
        finally:
            emulated.fail_call(0)
        assert write(engine) == expected
        engine.close()

    said = each_call(emulated, make)
    assert len(said) > 50
    assert all("GPU" in error or error == "" for error in said), said
    gc.collect()
    assert emulated.free_memory() == free


@pytest.mark.parametrize("hooks", ["all", "-sampling"])
def test_after_any_call_that_failed_once_the_text_is_right(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path, hooks: str
) -> None:
    engine = open_engine(model, hooks=hooks)
    expected = write(engine)
    others = write(engine, (3, 4))

    def check() -> None:
        try:
            assert write(engine) == expected
        finally:
            emulated.fail_call(0)
            settle(engine)
            assert write(engine, (3, 4)) == others
            assert_nothing_is_left(engine)
            engine.forget()

    engine.forget()
    said = each_call(emulated, check)
    assert len(said) > 20
    assert [error for error in said if error and "out of memory" not in error] == []
    assert any(said)
    engine.close()  # even after captures that never ended
    assert finish(start(open_engine(model), prompt(1, 6), 4)) == expected[0]


def test_after_a_call_that_failed_llama_cpps_own_memory_is_right_or_is_told_to_be_lost(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model, hooks="none")
    expected = write(engine)
    n = 1
    while True:
        engine.forget()
        emulated.reset_counters()
        emulated.fail_call(n)
        try:
            assert write(engine) == expected
        except OrinError as error:
            assert "CUDA error: " in str(error)
        emulated.fail_call(0)
        if emulated.counters().get("asked_failures", 0) == 0:
            break
        settle(engine)
        try:
            assert write(engine) == expected
        except OrinError as error:
            assert "CUDA error: " in str(error)
            engine.close()
            engine = open_engine(model, hooks="none")
            assert write(engine) == expected
        n += 3
    assert n > 20


@pytest.mark.parametrize("hooks", ["all", "-sampling", "none"])
def test_where_all_calls_fail_from_one_on_each_request_is_told_and_the_engine_closes(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path, hooks: str
) -> None:
    expected = write(open_engine(model, hooks=hooks))
    for n in range(1, 120, 17):
        engine = open_engine(model, hooks=hooks)
        emulated.fail_call(n, for_ever=True)
        for _ in range(3):
            try:
                assert write(engine) == expected
            except OrinError as error:
                assert "GPU" in str(error) or "CUDA" in str(error)
        with pytest.raises(OrinError, match="CUDA" if hooks == "none" else "does not answer"):
            write(engine)
        settle(engine)
        engine.close()
        gc.collect()
        emulated.fail_call(0)
    assert write(open_engine(model, hooks=hooks)) == expected


def test_memory_that_cannot_be_given_back_stays_and_harms_nobody(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model)
    expected = write(engine)

    for n in range(1, 8):
        emulated.fail_call(n)
        engine.forget()
        emulated.fail_call(0)
        assert write(engine) == expected


def test_states_whose_copies_fail_are_errors_and_the_engine_goes_on(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model)
    tokens = prompt(1, 40)
    expected = finish(start(engine, tokens, 4))
    rows = engine.runner.read_kv(tokens, 0, 32)

    def copy_there_and_back() -> None:
        engine.forget()
        try:
            assert engine.runner.write_kv(tokens[:32], 0, rows) == 32
            assert engine.runner.read_kv(tokens, 0, 32) == rows
        finally:
            emulated.fail_call(0)
            assert finish(start(engine, tokens, 4)) == expected

    said = each_call(emulated, copy_there_and_back)
    assert any("CUDA error: out of memory" in error for error in said)
