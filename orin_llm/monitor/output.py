"""Lines to a file descriptor whose reader may be slow, gone or stuck: nobody waits for it."""

from __future__ import annotations

import os
import select
from collections import deque

MAX_WAITING_BYTES = 1 << 20
_PIECE_BYTES = 4096  # PIPE_BUF: a pipe that is ready takes so much at once


class LineOutput:
    """Writes whole lines, as fast as they are taken.

    What waits is bounded: a line for which there is no room is left out, and counted in
    `left_out`.
    """

    def __init__(self, number: int) -> None:
        """`number` is that of a file descriptor, which stays as it is."""
        self.number = number
        self.left_out = 0
        self._waiting: deque[bytes] = deque()
        self._bytes = 0

    @property
    def has_waiting(self) -> bool:
        """Whether something is still to be written."""
        return bool(self._waiting)

    def add(self, line: str) -> None:
        """Write a line, or as much as is taken now.

        Raises:
            OSError: nobody reads (BrokenPipeError), or it cannot be written.
        """
        data = line.encode()
        if self._bytes + len(data) > MAX_WAITING_BYTES:
            self.left_out += 1
        else:
            self._waiting.append(data)
            self._bytes += len(data)
        self.write_on()

    def write_on(self) -> None:
        """Write what is taken now. Raises OSError as `add`."""
        while self._waiting and select.select([], [self.number], [], 0)[1]:
            line = self._waiting[0]
            try:
                written = os.write(self.number, line[:_PIECE_BYTES])
            except BlockingIOError:  # who opened it wants no waits, and it is full after all
                return
            self._bytes -= written
            if written == len(line):
                self._waiting.popleft()
            else:
                self._waiting[0] = line[written:]
