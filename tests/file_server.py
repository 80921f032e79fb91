"""A real HTTP server on loopback for downloads: ranges, and the ways in which they go wrong."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Served:
    """One file of the server.

    Attributes:
        etag: sent as it is, "" for none.
        ranges: answer Range requests with 206.
        drops: for each of the first requests, the bytes of its answer after which the connection
            is cut.
        answers: (status, headers) of the first requests, instead of the file.
        length: a Content-Length that is not the truth; None for the true one, -1 for none.
        redirect: send everyone there.
        pause_s: wait before each 16 KiB.
        on_request: called with the request's headers before it is answered.
    """

    data: bytes
    etag: str = '"one"'
    last_modified: str = ""
    content_type: str = "application/octet-stream"
    encoding: str = ""
    ranges: bool = True
    drops: list[int] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    length: int | None = None
    redirect: str = ""
    pause_s: float = 0.0
    on_request: Callable[[Any], None] | None = None


@dataclass
class Server:
    """The running server: its address, its files by path, and the requests it got."""

    url: str
    files: dict[str, Served] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def add(self, path: str, served: Served) -> str:
        """Serve a file and return its address."""
        self.files[path] = served
        return self.url + path

    def ranges_asked(self) -> list[str]:
        """The Range header of each request, "" where it had none."""
        return [headers.get("Range", "") for _, headers in self.requests]


@contextmanager
def serving() -> Iterator[Server]:
    """A server on a free port, for the time of the `with` block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            server.requests.append((self.path, dict(self.headers)))
            served = server.files.get(path)
            if served is None:
                self._status(404, {})
                return
            if served.on_request:
                served.on_request(self.headers)
            if served.answers:
                self._status(*served.answers.pop(0))
            elif served.redirect:
                self._status(302, {"Location": served.redirect})
            else:
                self._file(served)

        do_HEAD = do_GET

        def _status(self, code: int, headers: dict[str, str]) -> None:
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _file(self, served: Served) -> None:
            data, start = served.data, 0
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            same = self.headers.get("If-Range") in (None, served.etag, served.last_modified)
            if asked and served.ranges and same:
                start = int(asked[1])
                if start >= len(data):
                    self._status(416, {"Content-Range": f"bytes */{len(data)}"})
                    return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            length = len(data) - start if served.length is None else served.length
            if length >= 0:
                self.send_header("Content-Length", str(length))
            for name, value in (
                ("ETag", served.etag),
                ("Last-Modified", served.last_modified),
                ("Content-Type", served.content_type),
                ("Content-Encoding", served.encoding),
            ):
                if value:
                    self.send_header(name, value)
            if self.command == "HEAD":
                self.end_headers()
                return
            # Said, or a client that keeps connections would ask for its next file on this one.
            self.send_header("Connection", "close")
            self.end_headers()
            stop = len(data)
            if served.drops:
                stop = min(stop, start + served.drops.pop(0))
            for at in range(start, stop, 16384):
                if served.pause_s:
                    time.sleep(served.pause_s)
                self.wfile.write(data[at : min(at + 16384, stop)])

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                self.close_connection = True

        def log_message(self, *args: object) -> None:
            pass

    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http_server.daemon_threads = True
    server = Server(f"http://127.0.0.1:{http_server.server_address[1]}")
    thread = threading.Thread(target=http_server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        http_server.shutdown()
        thread.join()
        http_server.server_close()
