"""Calls of CUDA that fail, in a process of their own: what is given up stays there till its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpu.emulated import EmulatedGpu


def test_an_engine_outlives_calls_that_fail_and_can_be_closed(emulated: EmulatedGpu) -> None:
    tests = Path(__file__).with_name("failing_calls.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(tests)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
