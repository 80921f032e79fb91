"""The emulated GPU's streams and memory: what CUDA promises, and mistakes that it shows."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from kernel_build import build_program

TOUCHED = "touched device memory that"
HOST = f"the host {TOUCHED}"
KERNEL = f"the emulated GPU, running the kernel set, {TOUCHED}"


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Its own handler would end the process instead of the signal.
    options = "detect_leaks=0:detect_stack_use_after_return=0:handle_segv=0"
    return subprocess.run(
        [build_program(program), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "ASAN_OPTIONS": options},
        check=False,
    )


def test_streams_do_what_cuda_promises_and_show_what_is_not_waited_for() -> None:
    done = run("streams")
    assert done.returncode == 0, done.stderr


def test_device_memory_is_what_was_allocated_and_mapped_and_ends() -> None:
    done = run("device_memory_use", "none")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("host reads", f"{HOST} is the device's"),
        ("host writes", f"{HOST} is the device's"),
        ("host reads mapped", f"{HOST} is the device's"),
        ("kernel after free", f"{KERNEL} nothing is allocated or mapped at"),
        ("kernel before map", f"{KERNEL} nothing is allocated or mapped at"),
        ("kernel before access", f"{KERNEL} is mapped, but not open to the device"),
        ("queued kernel after unmap", f"{KERNEL} nothing is allocated or mapped at"),
    ],
)
def test_who_touches_device_memory_that_he_must_not_is_ended(mistake: str, said: str) -> None:
    done = run("device_memory_use", mistake)
    assert said in done.stderr
    assert done.returncode == -signal.SIGSEGV
