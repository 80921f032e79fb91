"""An HTTP/1.1 response, read as its bytes come. No bytes are waited for, so times stay true."""

from __future__ import annotations

import zlib

from orin_llm.bench.serve.failure import Failure, excerpt

MAX_HEAD_BYTES = 64 << 10
MAX_BODY_BYTES = 256 << 20  # decoded
MAX_LINE_BYTES = 4 << 10  # of a chunk's size with its extensions
_ZLIB_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class ResponseReader:
    """Give it what comes; it gives back what of the body is there, decoded.

    Attributes:
        status: 0 until the head is there.
        headers: by lower-case name; of several with one name the last.
        done: the response is complete.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.done = False
        self._buffer = bytearray()
        self._left: int | None = None  # bytes of the body, or of the chunk; None: until the end
        self._chunked = False
        self._trailers = False
        self._after_chunk = False
        self._inflate: zlib._Decompress | None = None
        self._body_bytes = 0

    def push(self, data: bytes) -> bytes:
        """The body's bytes that `data` completes. Raises Failure where this is no response."""
        self._buffer += data
        if not self.status and not self._read_head():
            return b""
        body = self._chunks() if self._chunked else self._plain()
        return self._decoded(body)

    def end(self) -> None:
        """The connection has ended. Raises Failure where more was to come."""
        if self.done:
            return
        if not self.status:
            what = "before its answer" if not self._buffer else "within the headers of its answer"
            raise Failure("disconnect", f"the server closed the connection {what}")
        if self._chunked or self._left is not None:
            raise Failure("disconnect", "the server closed the connection within its answer")
        self.done = True

    def _read_head(self) -> bool:
        while True:
            if self._buffer[:7] != b"HTTP/1."[: len(self._buffer)]:
                raise Failure("no HTTP", f"the server answers {excerpt(bytes(self._buffer))}")
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0 or end > MAX_HEAD_BYTES:
                if len(self._buffer) > MAX_HEAD_BYTES:
                    raise Failure("no HTTP", f"headers of more than {MAX_HEAD_BYTES} bytes")
                return False
            head = self._buffer[:end].decode("latin-1")
            del self._buffer[: end + 4]
            status = self._status(head)
            if status >= 200:  # before it may come interim answers
                self.status = status
                self._prepare_body()
                return True

    def _status(self, head: str) -> int:
        first, *lines = head.split("\r\n")
        code = first.split(" ", 2)[1:2]
        if not code or not (len(code[0]) == 3 and code[0].isascii() and code[0].isdigit()):
            raise Failure("no HTTP", f"the server answers {excerpt(first)}")
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        return int(code[0])

    def _prepare_body(self) -> None:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._chunked = True
            self._left = 0
        elif (length := self.headers.get("content-length")) is not None:
            if not (length.isascii() and length.isdigit() and len(length) < 19):
                raise Failure("no HTTP", f"a Content-Length of {excerpt(length)}")
            self._left = int(length)
        elif self.status in (204, 304):
            self._left = 0
        encoding = self.headers.get("content-encoding", "identity").lower()
        if encoding in _ZLIB_BITS:
            self._inflate = zlib.decompressobj(_ZLIB_BITS[encoding])
        elif encoding != "identity":
            raise Failure("no HTTP", f"a body encoded as {excerpt(encoding)}, not asked for")

    def _plain(self) -> bytes:
        body = bytes(self._buffer if self._left is None else self._buffer[: self._left])
        self._buffer.clear()
        if self._left is not None:
            self._left -= len(body)
            self.done = self._left == 0
        return body

    def _chunks(self) -> bytes:
        parts = []
        while not self.done:
            if self._left:
                part = bytes(self._buffer[: self._left])
                if not part:
                    break
                del self._buffer[: len(part)]
                self._left -= len(part)
                self._after_chunk = self._left == 0
                parts.append(part)
                continue
            line = self._line()
            if line is None:
                break
            if self._trailers:
                self.done = not line
            elif self._after_chunk:
                if line:
                    raise Failure("no HTTP", f"a chunk ends with {excerpt(line)}")
                self._after_chunk = False
            else:
                self._left = self._chunk_size(line)
                self._trailers = self._left == 0
        return b"".join(parts)

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        if end < 0 or end > MAX_LINE_BYTES:
            if len(self._buffer) > MAX_LINE_BYTES:
                raise Failure("no HTTP", f"a chunk begins {excerpt(bytes(self._buffer))}")
            return None
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        del self._buffer[: end + 1]
        return line

    def _chunk_size(self, line: bytes) -> int:
        digits = line.partition(b";")[0].strip()
        if not 0 < len(digits) <= 15 or digits.strip(b"0123456789abcdefABCDEF"):
            raise Failure("no HTTP", f"a chunk begins {excerpt(line)}")
        return int(digits, 16)

    def _decoded(self, body: bytes) -> bytes:
        if self._inflate is not None and body:
            room = MAX_BODY_BYTES - self._body_bytes + 1
            try:
                body = self._inflate.decompress(body, room)
            except zlib.error as error:
                raise Failure("no HTTP", f"a compressed body that is damaged: {error}") from None
        self._body_bytes += len(body)
        if self._body_bytes > MAX_BODY_BYTES:
            raise Failure("too long", f"an answer of more than {MAX_BODY_BYTES} bytes")
        return body
