"""A server with OpenAI's interface that answers with known delays, or as wrong as servers can be.

`python tests/stub_server.py --first-ms 100 --gap-ms 20` runs one until it is interrupted; its first
line says where.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import ssl
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

OVERHEAD = 11  # tokens of the template around a prompt; each word of it is two


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    at_s: float
    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        messages = self.body.get("messages")
        if messages:
            return "\n".join(message["content"] for message in messages)
        return str(self.body["prompt"])

    @property
    def prompt_tokens(self) -> int:
        return OVERHEAD + 2 * len(self.prompt.split())


Reply = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Stub:
    """How it answers, and what it was asked.

    Attributes:
        first_ms: from the request to its first token; gap_ms: between two.
        end_ms: between the last token and the end of the stream.
        bundle: tokens in one event.
        slots: requests that are answered at the same time; others wait. 0: no limit.
        each_ms: that every other running request adds to a gap.
        most_tokens: of an answer, however many are asked for; 0: no limit.
        usage: tell how many tokens there are in a stream; counts: in an answer in one piece.
        cached: tokens of the prompt, found in a cache.
        refuses: fields of a body that are answered with 400.
        key: that a client has to know.
        models: that it says it has; None: it knows no such path.
        encoding: "", gzip or deflate.
        fault: answers in place of all that.
        sent_ms: of each answer, when each event with text was really sent, after the request came;
            `GET /sent` tells it.
    """

    first_ms: float = 0.0
    gap_ms: float = 0.0
    end_ms: float = 0.0
    bundle: int = 1
    slots: int = 0
    each_ms: float = 0.0
    most_tokens: int = 0
    usage: bool = True
    counts: bool = True
    cached: int = 0
    refuses: tuple[str, ...] = ()
    key: str = ""
    models: list[str] | None = field(default_factory=lambda: ["stub"])
    encoding: str = ""
    fault: Reply | None = None
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    sent_ms: list[list[float]] = field(default_factory=list)
    running: int = 0
    peak: int = 0

    def completions(self) -> list[Asked]:
        """The requests for an answer."""
        return [asked for asked in self.asked if asked.method == "POST"]

    @contextlib.asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[str]:
        """Its address, while it runs in this event loop; `port` 0: one that is free."""
        self._slots = asyncio.Semaphore(self.slots or 1 << 20)
        server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self.tls)
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"http{'s' if self.tls else ''}://127.0.0.1:{port}"
        finally:
            server.close()

    @contextlib.contextmanager
    def running_apart(self) -> Iterator[str]:
        """Its address, while it runs in a thread of its own."""
        ready = threading.Event()
        place: list[Any] = []

        async def serve() -> None:
            ended = asyncio.Event()
            async with self.listening() as url:
                place.extend((url, asyncio.get_running_loop(), ended))
                ready.set()
                await ended.wait()
                for task in asyncio.all_tasks() - {asyncio.current_task()}:
                    task.cancel()

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        ready.wait()
        url, loop, ended = place
        try:
            yield url
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            asked = await _read(reader)
            self.asked.append(asked)
            if self.fault is not None and asked.method == "POST":
                await self.fault(asked, writer)
            else:
                await self._answer(asked, writer)
            await writer.drain()
        writer.close()

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if self.key and asked.headers.get("authorization") != f"Bearer {self.key}":
            writer.write(error_reply(401, "invalid api key"))
        elif asked.path == "/v1/models" and self.models is not None:
            writer.write(json_reply({"object": "list", "data": [{"id": m} for m in self.models]}))
        elif asked.path == "/sent":
            writer.write(json_reply(self.sent_ms))
        elif asked.path not in ("/v1/chat/completions", "/v1/completions"):
            writer.write(error_reply(404, "no such path"))
        elif wrong := [name for name in self.refuses if name in asked.body]:
            writer.write(error_reply(400, f"unknown field {wrong[0]}"))
        elif not asked.body.get("stream"):
            usage = {"usage": {"prompt_tokens": asked.prompt_tokens, "completion_tokens": 1}}
            text = {"choices": [{"text": "word", "message": {"content": "word"}}]}
            writer.write(json_reply({**text, **(usage if self.counts else {})}))
        else:
            async with self._slots:
                self.running += 1
                self.peak = max(self.peak, self.running)
                try:
                    await self._stream(asked, writer)
                finally:
                    self.running -= 1

    async def _stream(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        """Each event at a time of its own, so that delays do not add up to more."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        send = Sender(writer, self.encoding).send
        left = min(asked.body["max_tokens"], self.most_tokens or 1 << 30)
        reason = "length" if left == asked.body["max_tokens"] else "stop"
        usage = {"prompt_tokens": asked.prompt_tokens, "completion_tokens": left}
        send(f"data: {json.dumps(text_event(asked, '', role=True))}\n\n".encode())
        wait_ms = self.first_ms
        sent_ms: list[float] = []
        self.sent_ms.append(sent_ms)
        while left > 0:
            due += (wait_ms + self.each_ms * (self.running - 1)) / 1e3
            await asyncio.sleep(max(0.0, due - loop.time()))
            tokens = min(self.bundle, left)
            left -= tokens
            send(f"data: {json.dumps(text_event(asked, ' word' * tokens))}\n\n".encode())
            sent_ms.append((loop.time() - asked.at_s) * 1e3)
            wait_ms = self.gap_ms
        send(f"data: {json.dumps(text_event(asked, '', reason=reason))}\n\n".encode())
        if self.end_ms:
            await asyncio.sleep(self.end_ms / 1e3)
        if self.usage and "stream_options" in asked.body:
            details = {"prompt_tokens_details": {"cached_tokens": self.cached}}
            event = {"choices": [], "usage": {**usage, **(details if self.cached else {})}}
            send(f"data: {json.dumps(event)}\n\n".encode())
        send(b"data: [DONE]\n\n", last=True)


class Sender:
    """Sends a stream in chunks, compressed if wanted: each piece can be read when it is there."""

    def __init__(self, writer: asyncio.StreamWriter, encoding: str = "") -> None:
        self._writer = writer
        bits = {"gzip": 31, "deflate": 15}.get(encoding)
        self._deflate = zlib.compressobj(wbits=bits) if bits else None
        head = f"Content-Encoding: {encoding}\r\n" if encoding else ""
        writer.write(stream_head(head))

    def send(self, data: bytes, last: bool = False) -> None:
        if self._deflate:
            data = self._deflate.compress(data) + self._deflate.flush(
                zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH
            )
        self._writer.write(chunk(data) + (b"0\r\n\r\n" if last else b""))


def text_event(asked: Asked, text: str, role: bool = False, reason: str | None = None) -> Any:
    if "prompt" in asked.body:
        choice: dict[str, Any] = {"index": 0, "text": text}
    else:
        choice = {"index": 0, "delta": {"role": "assistant"} if role else {"content": text}}
    return {"model": "stub", "choices": [{**choice, "finish_reason": reason}]}


def stream_head(more: str = "") -> bytes:
    return (
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nServer: stub/1\r\n"
        f"{more}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    ).encode()


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def json_reply(value: Any, status: int = 200, head: str = "") -> bytes:
    body = json.dumps(value).encode()
    return plain_reply(body, status, f"Content-Type: application/json\r\n{head}")


def error_reply(status: int, message: str) -> bytes:
    return json_reply({"error": {"message": message, "type": "stub"}}, status)


def plain_reply(body: bytes, status: int = 200, head: str = "") -> bytes:
    first = f"HTTP/1.1 {status} Said\r\n{head}Content-Length: {len(body)}\r\n"
    return f"{first}Connection: close\r\n\r\n".encode() + body


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    at_s = asyncio.get_running_loop().time()
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ")
    headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines) if n}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(at_s, method, path, headers, json.loads(body) if body else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("first", "gap", "end", "each"):
        parser.add_argument(f"--{name}-ms", type=float, default=0.0)
    parser.add_argument("--slots", type=int, default=0)
    parser.add_argument("--bundle", type=int, default=1)
    parser.add_argument("--port", type=int, default=0)
    settings = vars(parser.parse_args())
    port = settings.pop("port")
    stub = Stub(**settings)

    async def serve() -> None:
        async with stub.listening(port) as url:
            print(url, flush=True)
            await asyncio.Event().wait()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())


if __name__ == "__main__":
    main()
