"""Server-sent events, read as their bytes come."""

from __future__ import annotations

import re

from orin_llm.bench.serve.failure import Failure

MAX_EVENT_BYTES = 1 << 20
_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventReader:
    """Give it what comes; it gives back the data of the events that are complete (WHATWG HTML,
    9.2.6: other fields and comments are dropped).
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: list[bytes] = []
        self._bytes = 0
        self._skip_newline = False
        self._first = True

    def push(self, chunk: bytes) -> list[bytes]:
        """The data of each event that `chunk` completes. Raises Failure where one has no end."""
        if self._skip_newline and chunk:
            self._skip_newline = False
            chunk = chunk.removeprefix(b"\n")
        looked_through = len(self._buffer)
        self._buffer += chunk
        found: list[bytes] = []
        begin = 0
        for end in _LINE_END.finditer(self._buffer, looked_through):
            self._take(bytes(self._buffer[begin : end.start()]), found)
            begin = end.end()
        # A newline that belongs to this carriage return may still come.
        self._skip_newline = begin == len(self._buffer) and self._buffer[-1:] == b"\r"
        del self._buffer[:begin]
        if self._bytes + len(self._buffer) > MAX_EVENT_BYTES:
            raise Failure("stream", f"an event of more than {MAX_EVENT_BYTES} bytes")
        return found

    def _take(self, line: bytes, found: list[bytes]) -> None:
        if self._first:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._first = False
        if not line:
            if self._data:
                found.append(b"\n".join(self._data))
                self._data.clear()
                self._bytes = 0
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._bytes += len(value)
