"""Processes that tests start: `orin-llm` and Python programs, to their end or until a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

TIMEOUT_S = 300
CLI = [sys.executable, "-m", "orin_llm.cli"]
USER_SETTINGS = ("HF_HOME", "HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_HUB_CACHE")


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(program), *arguments]


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without the user's settings for the hub, and these variables."""
    kept = {name: value for name, value in os.environ.items() if name not in USER_SETTINGS}
    return {**kept, "HF_HUB_DISABLE_TELEMETRY": "1", **variables}


def run(
    command: list[str],
    stdin: bytes = b"",
    *,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its exit status. Output is decoded as paths are."""
    done = subprocess.run(
        command, input=stdin, capture_output=True, env=env, cwd=cwd, timeout=TIMEOUT_S
    )
    return subprocess.CompletedProcess(
        command, done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr)
    )


def start(
    command: list[str], *, stdin: int = subprocess.DEVNULL, env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a command whose output can be read while it runs."""
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        text=True,
    )


def read_some(process: subprocess.Popen[str]) -> str:
    """What the process writes next to stdout."""
    assert process.stdout is not None
    return os.read(process.stdout.fileno(), 1 << 16).decode()


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C; what the process still writes to stdout and stderr until it ends.

    Once more after 30 s, in which every machine ends what it has begun to end: Python itself loses
    one that comes while a module's import ends.
    """
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=60)
