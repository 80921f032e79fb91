"""What every test can ask for: real models and engines, made once per run."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import gpu_under_test  # before what loads the extension module
import pytest
from file_server import Server, serving
from hypothesis import HealthCheck, settings
from kernel_build import build_cuda, build_emulated, gpu_architecture, sanitizer_libraries
from kernel_calls import Kernels
from processes import CLI

from orin_llm.engine import Engine, EngineConfig
from orin_llm.models.store import Store, resolve

collect_ignore = [] if gpu_under_test.KIND else ["gpu"]

# A job in the background of a script ignores Ctrl-C, and so would every process that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# And under nohup, a closed terminal. What is handled is not ignored in those processes.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)
# A process of pytest-xdist has them, and programs would believe them rather than their terminal.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
# How long an example takes, or its drawing, tells of a busy machine and not of what is tested.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
# Whoever runs the tests may have tuned this machine.
os.environ["ORIN_LLM_PROFILES"] = "/nonexistent/profiles"


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The default model's file, fetched into the user's store when it is not there."""
    subprocess.run([*CLI, "models", "pull", "smollm2"], check=True, stdout=subprocess.DEVNULL)
    return resolve("smollm2")


@pytest.fixture(scope="session")
def engine(smollm2: Path) -> Iterator[Engine]:
    """The default model with a context of 2048 tokens. Tests must not close it.

    One thread: several wait for each other at every step, which takes long on a busy machine. It
    does not publish: whoever looks for engines would open files in this process, as others count.
    """
    with Engine(smollm2, EngineConfig(n_ctx=2048, threads=1, publish=False)) as shared:
        yield shared


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete llama model of a few kilobytes with random weights: loads in a millisecond."""
    from gguf_bytes import tiny_llama_bytes

    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    path.write_bytes(tiny_llama_bytes())
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


ON = ["emulated", *([pytest.param("gpu", marks=pytest.mark.gpu)] if gpu_architecture() else [])]


@pytest.fixture(scope="session", params=ON)
def kernels(request: pytest.FixtureRequest) -> Iterator[Kernels]:
    """The kernels of cuda/: emulated, and on the GPU where there is one."""
    if request.param == "gpu":
        running = Kernels(build_cuda(gpu_architecture()))
    else:
        running = Kernels(build_emulated(), sanitizer_libraries())
    yield running
    running.close()


@pytest.fixture(scope="session")
def needs_stock() -> None:
    """Skip where stock llama.cpp is not installed; importing it here would load it."""
    if importlib.util.find_spec("llama_cpp") is None:
        pytest.skip("needs the [stock] extra")
