"""What tests on a GPU can ask for."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from gguf_bytes import Shape, tiny_llama
from gpu.emulated import EmulatedGpu
from gpu_under_test import KIND
from processes import CLI

from orin_llm.engine import Engine, EngineConfig

OpenEngine = Callable[..., Engine]
HEADS_OF_64 = Shape(n_embd=128, n_head=2, n_head_kv=1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and KIND == "real":
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A llama of two megabytes with random weights and a vocabulary of 2048."""
    path = tmp_path_factory.mktemp("models") / "small.gguf"
    subprocess.run([*CLI, "models", "synth", "--shape", "tiny", "-q", str(path)], check=True)
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers, heads of 64, 300 tokens, weights in F32."""
    path = tmp_path_factory.mktemp("models") / "heads_of_64.gguf"
    path.write_bytes(tiny_llama(shape=HEADS_OF_64).data)
    return path


@pytest.fixture
def open_engine() -> Iterator[OpenEngine]:
    """Makes engines on the GPU, which are closed at the end: `open_engine(model, n_ctx=256)`.

    With `gpu_layers=0` on the CPU, to compare with.
    """
    with ExitStack() as opened:

        def open_one(model: Path, **config: Any) -> Engine:
            defaults = {"n_ctx": 256, "threads": 1, "gpu_layers": -1, "publish": False}
            return opened.enter_context(Engine(model, EngineConfig(**{**defaults, **config})))

        yield open_one


@pytest.fixture
def emulated() -> Iterator[EmulatedGpu]:
    """The emulated GPU, its counters at 0; skips where the GPU is real."""
    if KIND != "emulated":
        pytest.skip("only the emulated GPU counts and can be set")
    gpu = EmulatedGpu()
    gpu.set_schedule(1)
    gpu.reset_counters()
    yield gpu
    gpu.set_schedule(1)
    gpu.set_memory()
    gpu.set_pinned_limit(-1)
    gpu.fail_call(0)
