"""A request and its HTTP/1.1 response, read as its bytes come.

h11 has the protocol; nothing here waits for bytes, so times stay true.
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Mapping

import h11

from orin_llm.bench.serve.failure import Failure, excerpt

MAX_HEAD_BYTES = 64 << 10  # also of a line between chunks
MAX_BODY_BYTES = 256 << 20  # decoded
_ZLIB_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_QUOTED = re.compile(r"""bytearray\((b'(?:[^'\\]|\\.)*'|b"(?:[^"\\]|\\.)*")\)""")


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
        self._http = h11.Connection(h11.CLIENT, MAX_HEAD_BYTES)
        self._inflate: zlib._Decompress | None = None
        self._body_bytes = 0

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
        """The bytes that ask for the response, on a connection that is closed after it."""
        fields = {**headers, "Connection": "close"}
        if body:
            fields["Content-Length"] = str(len(body))
        http = self._http
        head = http.send(h11.Request(method=method, target=path, headers=list(fields.items())))
        return head + http.send(h11.Data(data=body)) + http.send(h11.EndOfMessage())

    def push(self, data: bytes) -> bytes:
        """The body's bytes that `data` completes. Raises Failure where this is no response."""
        if self.done or not data:
            return b""
        self._http.receive_data(data)
        try:
            return self._decoded(self._read())
        except h11.RemoteProtocolError as error:
            raise Failure("no HTTP", self._told(error, data)) from None

    def end(self) -> None:
        """The connection has ended. Raises Failure where more was to come."""
        if self.done:
            return
        if not self.status:
            begun = self._http.trailing_data[0]
            what = "within the headers of its answer" if begun else "before its answer"
            raise Failure("disconnect", f"the server closed the connection {what}")
        self._http.receive_data(b"")
        try:
            self._read()
        except h11.RemoteProtocolError as error:
            raise Failure("disconnect", f"within its answer: {error}") from None

    def _read(self) -> bytes:
        """What is there of the body."""
        parts = []
        while not self.done:
            if not self.status:
                self._check_beginning()
            event = self._http.next_event()
            if isinstance(event, h11.Data):
                parts.append(event.data)
            elif isinstance(event, h11.Response):
                self._take_head(event)
            elif isinstance(event, h11.EndOfMessage):
                self.done = True
            elif not isinstance(event, h11.InformationalResponse):
                break
        return b"".join(parts)

    def _check_beginning(self) -> None:
        """What speaks another protocol may never send the blank line that ends a head."""
        begun = self._http.trailing_data[0]
        if begun[:7] != b"HTTP/1."[: len(begun)]:
            raise Failure("no HTTP", f"the server answers {excerpt(begun)}")

    def _take_head(self, response: h11.Response) -> None:
        self.status = response.status_code
        self.headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers
        }
        encoding = self.headers.get("content-encoding", "identity").lower()
        if encoding in _ZLIB_BITS:
            self._inflate = zlib.decompressobj(_ZLIB_BITS[encoding])
        elif encoding != "identity":
            raise Failure("no HTTP", f"a body encoded as {excerpt(encoding)}, not asked for")

    def _told(self, error: h11.RemoteProtocolError, data: bytes) -> str:
        """What is wrong, and the bytes that are: h11 names those of a line, but not of a field."""
        if error.error_status_hint == 431:
            what = "a line between chunks" if self.status else "headers"
            return f"{what} of more than {MAX_HEAD_BYTES} bytes"
        text = str(error)
        told = _QUOTED.sub(lambda quoted: excerpt(ast.literal_eval(quoted[1])), text)
        return told if told != text else f"{text} in {excerpt(data)}"

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
