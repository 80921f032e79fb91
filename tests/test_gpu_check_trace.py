"""The library that writes down what a GPU does, with a stand-in for CUPTI below it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checking.steps import StepFailed
from gpu_check.steps import Context
from gpu_check.trace import build_tracer, cuda_folder, read_trace
from native.errors import BuildError

FAKE = Path(__file__).parent / "fakes/cupti/libcupti.cpp"
LOAD = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).InitializeInjection())"


def has_cupti() -> bool:
    try:
        return (cuda_folder() / "include/cupti.h").exists()
    except BuildError:
        return False


needs_cupti = pytest.mark.skipif(not has_cupti(), reason="needs CUPTI's headers")


@pytest.fixture(scope="module")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The library, and the folder of the stand-in."""
    folder = tmp_path_factory.mktemp("cupti")
    command = ["c++", "-std=c++17", "-shared", "-fPIC", f"-I{cuda_folder() / 'include'}"]
    command += [str(FAKE), "-o", str(folder / "libcupti.so")]
    subprocess.run(command, check=True)
    return build_tracer(Context(folder, "trace", time.monotonic() + 120)), folder


def traced(tracer: tuple[Path, Path], file: Path, **variables: str) -> str:
    """Let a program load the library, as the driver does, and end."""
    library, fake = tracer
    env = {**os.environ, "LD_PRELOAD": str(fake / "libcupti.so"), "ORIN_TRACE": str(file)}
    command = [sys.executable, "-c", LOAD, str(library)]
    done = subprocess.run(command, env={**env, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_cupti
def test_all_kinds_of_work_are_written_when_the_program_ends(
    tracer: tuple[Path, Path], tmp_path: Path
) -> None:
    assert traced(tracer, tmp_path / "t") == "1"
    assert (tmp_path / "t").read_text().splitlines() == [
        "kernel 1 2", "graph 10 20", "memset 21 22", "copy 23 24 16 2", "graph 40 50", "dropped 0"
    ]  # fmt: skip
    found = read_trace(tmp_path / "t")
    assert found == {"idle_us": pytest.approx(0.018), "graphs": 2, "to_host_bytes": 16}


@needs_cupti
def test_where_the_driver_does_not_allow_it_the_program_goes_on_and_the_file_says_why(
    tracer: tuple[Path, Path], tmp_path: Path
) -> None:
    assert traced(tracer, tmp_path / "t", FAKE_CUPTI_FAILS="1") == "0"
    with pytest.raises(StepFailed, match="INSUFFICIENT_PRIVILEGES"):
        read_trace(tmp_path / "t")


def test_without_cupti_it_is_said_to_be_unmeasured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin/nvcc"
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{nvcc.parent}:{os.environ['PATH']}")
    with pytest.raises(StepFailed, match=rf"unmeasured: no CUPTI .* below {tmp_path}"):
        build_tracer(Context(tmp_path, "trace", time.monotonic() + 60))
