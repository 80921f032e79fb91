"""One streamed answer, read as its bytes come: when its tokens were there, and what it tells."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from orin_llm.bench.serve.events import EventReader
from orin_llm.bench.serve.failure import Failure, excerpt
from orin_llm.bench.serve.response import ResponseReader

MAX_ERROR_BYTES = 64 << 10  # of what a server says in place of an answer
_SPARE_EVENTS = 64  # above the tokens that were asked for


@dataclass
class Usage:
    """Tokens as the server counts them; None where it does not tell."""

    prompt: int | None = None
    answer: int | None = None
    cached: int | None = None

    def read(self, told: Any) -> None:
        """Take what is there and makes sense of a `usage` object."""
        if not isinstance(told, dict):
            return
        details = told.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        self.prompt = _count(told.get("prompt_tokens"), self.prompt)
        self.answer = _count(told.get("completion_tokens"), self.answer)
        self.cached = _count(cached, self.cached)

    def read_timings(self, told: Any) -> None:
        """Take what llama-server tells of its cache in a `timings` object."""
        if isinstance(told, dict):
            self.cached = _count(told.get("cache_n"), self.cached)


def _count(value: Any, known: int | None) -> int | None:
    right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
    return value if right else known


@dataclass
class Answer:
    """Give it what comes, with its time; `end` when the connection has ended.

    Attributes:
        max_tokens: that were asked for: a server that does not stop there is left.
        event_ms: when each event with text was there; it may have several tokens.
        finished_ms: when the last text, or the word that it was the last, was there.
        finish_reason: as the server says it, "" where it does not.
        complete: nothing more will come.
        response: that the answer is in.
    """

    max_tokens: int
    event_ms: list[float] = field(default_factory=list)
    finished_ms: float = 0.0
    finish_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    complete: bool = False
    response: ResponseReader = field(default_factory=ResponseReader)
    _events: EventReader = field(default_factory=EventReader)
    _other: bytearray = field(default_factory=bytearray)  # a body that is no stream
    _said_done: bool = False

    def push(self, at_ms: float, data: bytes) -> None:
        """Read what has come. Raises Failure where it is no answer, or not what was asked for."""
        body = self.response.push(data)
        if self.complete:
            return
        if self.response.status and self._is_stream:
            self._read_events(at_ms, body)
            if self.complete:
                return
        elif self.response.status:
            self._other += body[: MAX_ERROR_BYTES - len(self._other)]
        if self.response.done or len(self._other) >= MAX_ERROR_BYTES:
            self._conclude()

    def end(self) -> None:
        """The connection has ended. Raises Failure where the answer has not."""
        if not self.complete:
            self.response.end()
            self._conclude()

    @property
    def server(self) -> str:
        """What the server calls itself, or ""."""
        return self.response.headers.get("server", "")[:64]

    @property
    def drained(self) -> bool:
        """Whether the end of the response is there, which may come behind that of the answer."""
        return self.response.done

    @property
    def _is_stream(self) -> bool:
        kind = self.response.headers.get("content-type", "").lower()
        return self.response.status == 200 and not kind.startswith("application/json")

    def _conclude(self) -> None:
        status, headers = self.response.status, self.response.headers
        if status != 200:
            raise refusal(status, headers, bytes(self._other))
        if not self._is_stream:
            raise _in_one_piece(bytes(self._other))
        if not (self._said_done or self.finish_reason):
            if not self.event_ms:
                raise Failure("stream", "the answer has no event with text")
            raise Failure(
                "disconnect", f"the stream ended after {len(self.event_ms)} events, without an end"
            )
        if not self.event_ms:
            raise Failure("empty", f"an answer without text ({self.finish_reason or 'no reason'})")
        if (self.usage.answer or 0) > self.max_tokens + _SPARE_EVENTS:
            raise Failure("too long", f"{self.usage.answer} tokens, and {self.max_tokens} wanted")
        self.complete = True

    def _read_events(self, at_ms: float, body: bytes) -> None:
        for data in self._events.push(body):
            if data.strip() == b"[DONE]":
                self._said_done = True
                self._conclude()
                return
            self._read_event(at_ms, parse_object(data))

    def _read_event(self, at_ms: float, event: dict[str, Any]) -> None:
        if event.get("error"):
            raise Failure("server error", excerpt(error_text(event["error"])))
        self.usage.read_timings(event.get("timings"))
        self.usage.read(event.get("usage"))
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return
        if _has_text(choice):
            self.event_ms.append(at_ms)
            self.finished_ms = at_ms
            if len(self.event_ms) > self.max_tokens + _SPARE_EVENTS:
                raise Failure("too long", f"an answer that did not end at {self.max_tokens} tokens")
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self.finish_reason = reason[:32]
            self.finished_ms = at_ms


def _has_text(choice: dict[str, Any]) -> bool:
    """Whether an event carries a part of the answer: text, thoughts, or a call of a tool."""
    if choice.get("text"):
        return True
    delta = choice.get("delta")
    return isinstance(delta, dict) and any(
        delta.get(name) for name in ("content", "reasoning_content", "reasoning", "tool_calls")
    )


def parse_object(data: bytes) -> dict[str, Any]:
    """An event's JSON. Raises Failure where it is none."""
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise Failure("stream", f"an event that is no JSON object: {excerpt(data)}")
    return event


def refusal(status: int, headers: dict[str, str], body: bytes) -> Failure:
    """What a server said in place of an answer."""
    if 300 <= status < 400:
        place = excerpt(headers.get("location", "nowhere"))
        return Failure(f"HTTP {status}", f"the server sends us to {place}: name that address")
    try:
        said = json.loads(body)
        text = error_text(said.get("error", said)) if isinstance(said, dict) else body
    except (ValueError, RecursionError):
        text = body
    return Failure(f"HTTP {status}", excerpt(text) if text else "without a word")


def error_text(error: Any) -> str:
    """The message of an error object, or all of it."""
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return error if isinstance(error, str) else json.dumps(error)


def _in_one_piece(body: bytes) -> Failure:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, dict) and said.get("error"):
        return Failure("server error", excerpt(error_text(said["error"])))
    return Failure(
        "no stream", f"the server answers in one piece, which tells no TTFT: {excerpt(body)}"
    )
