"""Programs that a step starts: each has a time limit, a log, and ends with the step."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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
    with outputs[0].open("wb") as out, outputs[1].open("wb") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environ,
            cwd=folder,
            preexec_fn=os.setpgrp,  # a group of its own, to be ended as a whole, in this session
        )
        try:
            process.wait(max(0.0, limit_s))
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _end(process)
    texts = [path.read_text(errors="replace") for path in outputs]
    return Done(process.returncode, timed_out, *texts)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program's group: politely first, so that it may keep what it has."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
