"""One at a time: two that change the same system would each record the other's half-made state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orin_llm.device.setup.system import System
from orin_llm.errors import OrinError
from orin_llm.host.locking import file_lock

LOCK = "/run/orin-llm-setup.lock"  # its text says who holds it: `1234 apply`


@contextmanager
def system_locked(system: System, command: str) -> Iterator[System]:
    """The system, for this process alone. What it starts holds the lock too, even if it is killed.

    Raises:
        OrinError: another holds it; the message says who.
    """
    path = system.path(LOCK)

    def refuse() -> None:
        raise OrinError(f"{_holder(path)}. Nothing was changed. Wait until it has ended")

    with file_lock(path, on_wait=refuse) as descriptor:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {command}\n".encode(), 0)
        yield system.holding(descriptor)


def _holder(path: Path) -> str:
    process, _, command = path.read_text(errors="replace").strip().partition(" ")
    if not process.isdecimal():  # locked a moment ago
        return "another `orin-llm setup` is at work"
    if Path(f"/proc/{process}").exists():
        return f"`orin-llm setup {command}` is at work (process {process})"
    return (
        f"`orin-llm setup {command}` (process {process}) was killed, and a program that it "
        "started is still running"
    )
