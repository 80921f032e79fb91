"""The disk at work while the processor is: files that will be mapped, on their way into memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from orin_llm.closeable import Closeable

_PIECE_BYTES = 8 << 20  # asked for at once: what is still waited for when it is closed


class ReadAhead(Closeable):
    """Has the system read files into the page cache, in order, until it is closed.

    A file that cannot be opened is left out: who reads it will say so.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[paths], name="read-ahead")
        self._thread.start()

    def _run(self, paths: Sequence[Path]) -> None:
        for path in paths:
            with suppress(OSError), path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                for offset in range(0, size, _PIECE_BYTES):
                    if self._closed.is_set():
                        return
                    os.posix_fadvise(file.fileno(), offset, _PIECE_BYTES, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Ask for no more."""
        self._closed.set()
        self._thread.join()
