"""A lock between processes, kept by a file that exists only while somebody holds or wants it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

OnWait = Callable[[], None]


@contextmanager
def held(path: Path, on_wait: OnWait | None = None) -> Iterator[None]:
    """Hold the lock at `path`; waits for whoever has it, after calling `on_wait` once.

    The kernel drops the lock when the process ends, however it ends.
    """
    handle = _acquire(path, on_wait)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while still held: the next one makes a new file
        os.close(handle)


def _acquire(path: Path, on_wait: OnWait | None) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if on_wait:
                    on_wait()
                    on_wait = None
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_still(path, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the former holder removed this file after we opened it


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
