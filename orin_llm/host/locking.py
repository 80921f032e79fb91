"""A lock between processes that the kernel releases when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

OnWait = Callable[[], None]


@contextmanager
def file_lock(path: Path, on_wait: OnWait | None = None) -> Iterator[int]:
    """Hold `path` exclusively; when another holds it, wait, after calling `on_wait` once.

    Gives the file descriptor: a child process that inherits it keeps the lock until it ends too,
    even when its parent is killed. The lock file stays: removing it would let two processes lock
    two different files.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is not None:
                on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
