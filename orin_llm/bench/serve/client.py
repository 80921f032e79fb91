"""A server as we ask it: which bodies it takes, and what came of each request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orin_llm import __version__
from orin_llm.bench.records import RequestRecord
from orin_llm.bench.serve.answer import Answer, Usage, parse_object, refusal
from orin_llm.bench.serve.exchange import Place
from orin_llm.bench.serve.failure import Failure
from orin_llm.bench.serve.prompts import Prompt
from orin_llm.bench.serve.response import ResponseReader
from orin_llm.errors import UsageError

ENDPOINTS = {"chat": "/chat/completions", "completions": "/completions"}
# What not every server takes: told by trying, the fullest first.
_EXTRAS: tuple[dict[str, Any], ...] = (
    {"ignore_eos": True, "stream_options": {"include_usage": True}},
    {"stream_options": {"include_usage": True}},
    {"ignore_eos": True},
    {},
)
COUNTED = "request"  # the role of requests that figures are made of
_NOT_TAKEN = ("HTTP 400", "HTTP 422")


@dataclass(frozen=True)
class Order:
    """One request to be made.

    Attributes:
        at_s: when it is due, after the load's beginning; 0 where it follows another.
        role: COUNTED, or "ramp" where it is not counted.
    """

    prompt: Prompt
    max_tokens: int
    at_s: float = 0.0
    role: str = COUNTED


@dataclass(frozen=True)
class Outcome:
    """What came of a request.

    Attributes:
        record: as that of any workload; its tokens' times are those of events with text.
        connect_ms: until the connection was open; None where it never was.
        late_ms: between when it was due and when it was sent.
    """

    record: RequestRecord
    connect_ms: float | None
    late_ms: float
    finish_reason: str


@dataclass(frozen=True)
class Client:
    """Asks one model of a server.

    Attributes:
        place: where it is.
        endpoint: one of ENDPOINTS.
        key: sent as a bearer's token; "" for none.
        extras: of every body, which the server was found to take.
        body: what the user wants to be in every body; a field that is None is left out of it.
        timeout_s: of one request.
        server: what it calls itself in its answers' headers, or "".
        tells_usage: whether streams tell how many tokens there are.
    """

    place: Place
    model: str = ""
    endpoint: str = "chat"
    key: str = field(default="", repr=False)
    extras: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 300.0
    server: str = ""
    tells_usage: bool = False

    def __post_init__(self) -> None:
        key = self.key
        if not (key.isascii() and key.isprintable() and key == key.strip()):
            raise UsageError(
                "the API key has characters that no header can have, or blanks around it: expected "
                "what the server was started with (--api-key)"
            )

    async def models(self) -> list[str]:
        """The names of the models that the server has. Raises Failure."""
        listed = (await self._whole("GET", "/models")).get("data")
        models = listed if isinstance(listed, list) else []
        names = (model.get("id") for model in models if isinstance(model, dict))
        return [name for name in names if isinstance(name, str) and name]

    async def prompt_tokens(self, prompt: Prompt) -> int | None:
        """How many tokens a prompt has; None where the server does not tell. Raises Failure.

        Asked in one piece: some servers count tokens there, and not in a stream.
        """
        usage = Usage()
        body = self._body(prompt, 1, stream=False)
        told = await self._whole("POST", ENDPOINTS[self.endpoint], body)
        usage.read(told.get("usage"))
        return usage.prompt

    async def _whole(self, method: str, path: str, body: bytes = b"") -> dict[str, Any]:
        reader = _WholeBody()
        request = self._request(reader.response, method, path, body)
        await self.place.send(request, reader, self.timeout_s, lambda _: None)
        return parse_object(bytes(reader.body))

    async def taught(self, prompt: Prompt) -> Client:
        """This client with the extras that the server takes. Raises Failure where it takes none."""
        refused: Failure | None = None
        for extras in _EXTRAS:
            client = replace(self, extras=extras)
            try:
                answer = await client.ask(prompt, 2)
            except Failure as failure:
                if failure.kind == "empty":  # a model that has nothing to say, but a good stream
                    return client
                if failure.kind not in _NOT_TAKEN:
                    raise
                refused = refused or failure
            else:
                tells = answer.usage.prompt is not None and answer.usage.answer is not None
                return replace(client, server=answer.server, tells_usage=tells)
        assert refused is not None
        raise refused

    async def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
        """One answer. Raises Failure."""
        answer = Answer(max_tokens)
        request = self._stream_request(answer, prompt)
        await self.place.send(request, answer, self.timeout_s, lambda _: None)
        return answer

    async def complete(self, order: Order, due_ms: float) -> Outcome:
        """Make a request now that was due then; one that fails is an outcome, too."""
        loop = asyncio.get_running_loop()
        answer = Answer(order.max_tokens)
        request = self._stream_request(answer, order.prompt)
        opened: list[float] = []
        error = kind = ""
        sent_ms = loop.time() * 1e3
        try:
            await self.place.send(request, answer, self.timeout_s, opened.append)
        except Failure as failure:
            error, kind = str(failure), failure.kind
        usage = answer.usage
        record = RequestRecord(
            role=order.role,
            submitted_ms=sent_ms,
            token_ms=tuple(answer.event_ms),
            finished_ms=loop.time() * 1e3 if error else answer.finished_ms,
            prompt_tokens=order.prompt.tokens if usage.prompt is None else usage.prompt,
            cached_tokens=min(usage.cached or 0, usage.prompt or 0),
            error=error,
            error_kind=kind,
            told_tokens=usage.answer or None,
        )
        return Outcome(
            record,
            connect_ms=opened[0] - sent_ms if opened else None,
            late_ms=max(0.0, sent_ms - due_ms),
            finish_reason=answer.finish_reason,
        )

    def _stream_request(self, answer: Answer, prompt: Prompt) -> bytes:
        body = self._body(prompt, answer.max_tokens, stream=True)
        return self._request(answer.response, "POST", ENDPOINTS[self.endpoint], body)

    def _body(self, prompt: Prompt, max_tokens: int, *, stream: bool) -> bytes:
        asked: dict[str, Any] = {
            "model": self.model,
            **prompt.content(self.endpoint),
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": stream,
            **self.extras,
            **self.body,
        }
        if not stream:
            asked.pop("stream_options", None)  # has no place there
        asked = {name: value for name, value in asked.items() if value is not None}
        return json.dumps(asked).encode()

    def _request(self, reader: ResponseReader, method: str, path: str, body: bytes) -> bytes:
        address = self.place.address
        headers = {
            "Host": address.authority,
            "User-Agent": f"orin-llm/{__version__}",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
        }
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        if body:
            headers["Content-Type"] = "application/json"
        return reader.ask(method, f"{address.base}{path}", headers, body)


class _WholeBody:
    """Reads a short answer to its end."""

    _MAX_BYTES = 4 << 20

    def __init__(self) -> None:
        self.complete = False
        self.body = bytearray()
        self.response = ResponseReader()

    @property
    def drained(self) -> bool:
        return self.response.done

    def push(self, at_ms: float, data: bytes) -> None:
        self.body += self.response.push(data)
        if len(self.body) > self._MAX_BYTES:
            raise Failure("too long", f"an answer of more than {self._MAX_BYTES} bytes")
        if self.response.done:
            self._conclude()

    def end(self) -> None:
        self.response.end()
        self._conclude()

    def _conclude(self) -> None:
        if self.response.status != 200:
            raise refusal(self.response.status, self.response.headers, bytes(self.body))
        self.complete = True
