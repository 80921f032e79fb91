"""The files of a model while it is read: one that changes meanwhile is noticed."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from orin_llm.errors import ModelFileError


@contextmanager
def watched(files: Sequence[Path]) -> Iterator[Callable[[], None]]:
    """Yields what raises ModelFileError once one of the files has changed.

    llama.cpp maps the files, and memory behind the end of one that shrank ends the process. So
    they are leased: who opens one to write, or cuts it, waits until the block ends, or for some
    45 s. Call the yielded function often, so that nobody waits long. Where the file system or the
    user's rights allow no lease, a change is noticed when it has happened.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(file.open("rb")).fileno() for file in files]
        before = [_state(fd) for fd in opened]
        leased = [fd for fd in opened if _lease(fd)]

        def check() -> None:
            for file, fd, state in zip(files, opened, before, strict=True):
                if _state(fd) != state or (fd in leased and _is_wanted(fd)):
                    raise ModelFileError(
                        f"{file} was changed while it was read: nothing was written; try again "
                        "when it stays as it is",
                        path=str(file),
                    )

        yield check


def _state(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_size, status.st_mtime_ns


def _lease(fd: int) -> bool:
    with suppress(OSError):
        # Told of another process's wish by a signal that nobody minds, in place of SIGIO.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        return True
    return False


def _is_wanted(fd: int) -> bool:
    """Whether another process waits to change the file."""
    return fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_UNLCK
