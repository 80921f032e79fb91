"""Programs that a step starts: each has a time limit, a log, and ends with the step."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checking.ended import held

_GRACE_S = 5.0  # between Ctrl-C and the end of all


@dataclass(frozen=True)
class Done:
    """How a program ended. `status` is negative where a signal ended it."""

    status: int
    timed_out: bool
    out: str
    err: str

    @property
    def well(self) -> bool:
        return self.status == 0 and not self.timed_out

    def why(self) -> str:
        """What its end was, and the last that it said."""
        end = "its time limit" if self.timed_out else f"exit status {self.status}"
        said = [line for line in (self.err.strip() or self.out.strip()).splitlines() if line][-6:]
        return "\n  ".join([f"ended by {end}", *said])


def run_program(
    command: Sequence[str], log: Path, limit_s: float, environ: Mapping[str, str], folder: Path
) -> Done:
    """Run a program in `folder`; what it writes goes to `log`.out and `log`.err.

    Whatever it has started ends with it: also when the limit is reached, or Ctrl-C comes.

    Raises:
        OSError: it cannot be started.
    """
    outputs = [log.with_name(f"{log.name}.{kind}") for kind in ("out", "err")]
    log.parent.mkdir(parents=True, exist_ok=True)
    timed_out = False
    with (
        outputs[0].open("wb") as out,
        outputs[1].open("wb") as err,
        started(command, stdout=out, stderr=err, env=environ, cwd=folder) as process,
    ):
        try:
            process.wait(max(0.0, limit_s))
        except subprocess.TimeoutExpired:
            timed_out = True
    texts = [path.read_text(errors="replace") for path in outputs]
    return Done(process.returncode, timed_out, *texts)


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The program, which ends with the block, and whatever it has started with it.

    `options` are those of Popen. Raises OSError where it cannot be started.
    """
    process = None
    try:
        with held():  # a program that is not known yet could not be ended
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                preexec_fn=os.setpgrp,  # a group of its own, to be ended as a whole
                **options,
            )
        yield process
    finally:
        if process is not None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program's group: politely first, so that it may keep what it has."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
