"""Runs cmake and ninja quietly: a progress line on stderr, everything else in a log."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from native.errors import BuildError

_STEP = re.compile(r"^\[(\d+)/(\d+)\]")
_SECONDS_BETWEEN_LINES = 20.0  # where stderr is no terminal


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
