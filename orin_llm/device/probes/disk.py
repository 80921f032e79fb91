"""How fast a file comes from its disk when a model is loaded."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from orin_llm.errors import ModelFileError

_CHUNK_BYTES = 8 << 20
_THREADS = 4  # reads in flight: one alone does not keep an NVMe drive busy
_MOST_BYTES = 512 << 20
_MOST_SECONDS = 2.0


@dataclass(frozen=True)
class DiskSpeed:
    """A trial read of a file, from its start.

    Attributes:
        bytes: read; 0 of an empty file.
        seconds: that it took.
        direct: the page cache was passed by. Where it was not (the file system refuses that),
            some of the file may have come from memory instead of the disk.
    """

    bytes: int
    seconds: float
    direct: bool

    @property
    def bytes_per_s(self) -> float:
        """0 of an empty file."""
        return self.bytes / self.seconds if self.bytes else 0.0


def read_speed(
    path: Path, most_bytes: int = _MOST_BYTES, most_seconds: float = _MOST_SECONDS
) -> DiskSpeed:
    """Read a file as loading does, no more than so many bytes and about so long.

    Raises:
        ModelFileError: it is not a file, or cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ModelFileError(f"{path} is not a file: name one to read", path=str(path))
        try:
            return _read(path, most_bytes, most_seconds, os.O_DIRECT)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
        return _read(path, most_bytes, most_seconds, 0)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}", path=str(path)) from None


def _read(path: Path, most_bytes: int, most_seconds: float, flags: int) -> DiskSpeed:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        size = min(os.fstat(file).st_size, most_bytes)
        if not flags:  # what is in the page cache would say nothing about the disk
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        start = time.perf_counter()
        done = _Reader(file, size, time.monotonic() + most_seconds).run()
        return DiskSpeed(done, time.perf_counter() - start, bool(flags))
    finally:
        os.close(file)


class _Reader:
    """Threads that read one chunk after another, each the next that nobody has taken."""

    def __init__(self, file: int, size: int, deadline: float) -> None:
        self._file, self._size, self._deadline = file, size, deadline
        self._next = 0
        self._lock = threading.Lock()

    def run(self) -> int:
        """Bytes read; the threads have ended."""
        with ThreadPoolExecutor(_THREADS) as pool:
            try:
                return sum(pool.map(lambda _: self._read_chunks(), range(_THREADS)))
            except BaseException:  # also Ctrl-C: the others need not go on
                self._deadline = 0
                raise

    def _read_chunks(self) -> int:
        done = 0
        # Direct reads need memory, offsets and sizes that are multiples of a disk's block.
        buffer = memoryview(mmap.mmap(-1, _CHUNK_BYTES))
        while (offset := self._take()) is not None:
            done += self._read_chunk(buffer, offset)
        return done

    def _read_chunk(self, buffer: memoryview, offset: int) -> int:
        """Bytes read: several reads where one does not give all."""
        wanted = min(_CHUNK_BYTES, -(-(self._size - offset) // mmap.PAGESIZE) * mmap.PAGESIZE)
        done = 0
        while done < wanted and offset + done < self._size:
            got = os.preadv(self._file, [buffer[done:wanted]], offset + done)
            if got == 0:
                break
            done += got
        return done

    def _take(self) -> int | None:
        """The offset of the next chunk; the first is read however late it is."""
        with self._lock:
            offset = self._next
            if offset >= self._size or (offset and time.monotonic() > self._deadline):
                return None
            self._next += _CHUNK_BYTES
            return offset
