"""What of a file is in the page cache, putting it there, and taking it out; what the disk gives."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from orin_llm.errors import OrinError
from orin_llm.host.units import size_text

BLOCK_BYTES = 16 << 20  # of a direct read: large enough that the disk has several pieces to work on
_DROP_ATTEMPTS = 20
_DROP_WAIT_S = 0.05
_FILL_ATTEMPTS = 5


def cached_bytes(path: Path) -> int:
    """Bytes of the file's pages that are in the page cache, by mincore(2).

    The kernel tells it only of files that the user owns or may write; of others it says that all
    is there.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return 0
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as mapping:
            pages = np.frombuffer(mapping, np.uint8)
            resident = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
            status = ctypes.CDLL(None, use_errno=True).mincore(
                ctypes.c_void_p(pages.ctypes.data),
                ctypes.c_size_t(size),
                ctypes.c_void_p(resident.ctypes.data),
            )
            del pages  # a mapping that somebody looks into cannot be closed
    if status != 0:
        raise OSError(ctypes.get_errno(), "mincore", str(path))
    return min(size, int(np.count_nonzero(resident & 1)) * mmap.PAGESIZE)


def drop(path: Path) -> None:
    """Take the file out of the page cache, and see that it is out.

    Raises:
        OrinError: pages stay: it lies in memory, another program has it mapped, or it belongs to
            another user, so that the kernel does not tell.
    """
    for attempt in range(_DROP_ATTEMPTS):
        if attempt:
            time.sleep(_DROP_WAIT_S)  # what others had in hand at that moment stays
        with path.open("rb") as file:
            os.fsync(file.fileno())  # pages that are still to be written would stay
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        left = cached_bytes(path)
        if left == 0:
            return
    raise OrinError(
        f"{path}: {size_text(left)} stay in the page cache: a cold start can be measured with a "
        "file of your own, on a disk (not in a tmpfs), that no other program has open"
    )


def fill(path: Path) -> None:
    """Read the whole file through the page cache.

    Raises:
        OrinError: not all of it stays there: there is too little memory.
    """
    buffer = memoryview(bytearray(BLOCK_BYTES))
    size = path.stat().st_size
    for _ in range(_FILL_ATTEMPTS):  # of a whole file, some pages may be given up at any time
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
        missing = size - cached_bytes(path)
        if missing <= 0:
            return
    raise OrinError(
        f"{path}: {size_text(missing)} of {size_text(size)} do not stay in the page cache: a warm "
        "start needs the memory for all of it"
    )


def direct_bytes_per_s(paths: Iterable[Path]) -> float | None:
    """How fast the files come from the disk past the page cache, read once from end to end.

    As `dd iflag=direct bs=16M` does. None where a file system cannot (O_DIRECT).
    """
    total, began = 0, time.perf_counter()
    with mmap.mmap(-1, BLOCK_BYTES) as buffer:  # which begins at a page, as such reads want
        for path in paths:
            try:
                file = os.open(path, os.O_RDONLY | os.O_DIRECT)
            except OSError:
                return None
            try:
                while (count := os.readv(file, [buffer])) > 0:
                    total += count
                    if count % mmap.PAGESIZE:
                        break  # the end: there, no further read is aligned
            finally:
                os.close(file)
    return total / (time.perf_counter() - began)
