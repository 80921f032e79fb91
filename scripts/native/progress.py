"""What a build says on stderr; cmake and ninja run quietly, with everything they say in a log."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from native.errors import BuildError
from orin_llm.host.locking import file_lock

_STEP = re.compile(r"^\[(\d+)/(\d+)\]")
_SECONDS_BETWEEN_LINES = 20.0  # where stderr is no terminal


def say(message: str) -> None:
    """One line on stderr."""
    print(message, file=sys.stderr, flush=True)


def build_lock(path: Path, work: str) -> AbstractContextManager[int]:
    """Hold `path` while doing `work`; says so when another process does it already."""
    return file_lock(path, lambda: say(f"waiting for another process: {work}"))


def run_logged(
    command: list[str], log: Path, title: str, environment: Mapping[str, str], lock: int
) -> None:
    """Run `command`, its output appended to `log`; BuildError with the log's end when it fails.

    The command inherits `lock`, the descriptor of the lock on the folder in which it works.
    """
    live = sys.stderr.isatty()
    last_shown = time.monotonic()
    lines: list[str] = []
    with log.open("a") as log_file:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env={**os.environ, **environment},
            pass_fds=(lock,),
        )
        assert process.stdout is not None
        with process:
            for line in process.stdout:
                log_file.write(line)
                step = _STEP.match(line)
                if step is None:
                    lines = [*lines[-60:], line]
                elif live:
                    print(f"\r{title}: {step[1]}/{step[2]} ", end="", file=sys.stderr, flush=True)
                elif time.monotonic() - last_shown > _SECONDS_BETWEEN_LINES:
                    print(f"{title}: {step[1]}/{step[2]}", file=sys.stderr, flush=True)
                    last_shown = time.monotonic()
    if live:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if process.returncode != 0:
        raise BuildError(
            f"{title} failed ({Path(command[0]).name} exited with {process.returncode}):\n"
            f"{''.join(lines)}The whole log: {log}"
        )
