"""Requests to simulate: realistic loads, and some that try to break a scheduler. All by seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

VOCABULARY = 128_000


@dataclass(frozen=True)
class TraceRequest:
    """One request: `cancel_ms` counts from its arrival."""

    arrival_ms: float
    prompt: list[int]
    output_tokens: int
    cancel_ms: float | None = None


@dataclass(frozen=True)
class Trace:
    """Requests by arrival, and the number of pages that they have to share."""

    name: str
    requests: list[TraceRequest]
    pages: int = 4096


class Maker:
    """Draws the lengths, times and tokens of requests."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def tokens(self, n: int) -> list[int]:
        return self._random.choices(range(VOCABULARY), k=n)

    def length(self, median: int, sigma: float, longest: int) -> int:
        drawn = self._random.lognormvariate(math.log(median), sigma)
        return max(1, min(longest, round(drawn)))

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def arrivals(self, n: int, per_s: float) -> list[float]:
        """A Poisson process, in milliseconds."""
        times = []
        now = 0.0
        for _ in range(n):
            now += 1e3 * self._random.expovariate(per_s)
            times.append(now)
        return times


def chat(seed: int) -> Trace:
    """Chats with one system prompt of 200 tokens; medium prompts and answers."""
    maker = Maker(seed)
    system = maker.tokens(200)
    return Trace(
        "chat",
        [
            TraceRequest(
                at,
                system + maker.tokens(maker.length(200, 0.9, 4000)),
                maker.length(180, 0.7, 1000),
            )
            for at in maker.arrivals(150, per_s=0.6)
        ],
    )


def rag(seed: int) -> Trace:
    """Agents and retrieval: long inputs, short answers."""
    maker = Maker(seed)
    system = maker.tokens(600)
    return Trace(
        "rag",
        [
            TraceRequest(
                at,
                system + maker.tokens(maker.length(3500, 0.6, 12000)),
                maker.length(60, 0.6, 300),
            )
            for at in maker.arrivals(120, per_s=0.12)
        ],
    )


def story(seed: int) -> Trace:
    """Short inputs, long answers."""
    maker = Maker(seed)
    return Trace(
        "story",
        [
            TraceRequest(at, maker.tokens(maker.length(60, 0.7, 400)), maker.length(700, 0.4, 2000))
            for at in maker.arrivals(100, per_s=0.2)
        ],
    )


def burst(seed: int) -> Trace:
    """Forty chats at once, twice."""
    maker = Maker(seed)
    return Trace(
        "burst",
        [
            TraceRequest(
                at, maker.tokens(maker.length(300, 0.9, 4000)), maker.length(120, 0.7, 600)
            )
            for at in [0.0] * 40 + [60e3] * 40
        ],
    )


def long(seed: int) -> Trace:
    """A prompt of 32k tokens among chats."""
    base = chat(seed)
    prompt = Maker(seed + 1).tokens(32_000)
    requests = [*base.requests, TraceRequest(60e3, prompt, 100)]
    return Trace("long", sorted(requests, key=lambda request: request.arrival_ms), pages=6144)


def equal(seed: int) -> Trace:
    """Forty-eight requests of the same lengths at the same time."""
    maker = Maker(seed)
    return Trace("equal", [TraceRequest(0.0, maker.tokens(512), 128) for _ in range(48)])


def cancel(seed: int) -> Trace:
    """Chats of which two in five are cancelled after up to ten seconds."""
    base = chat(seed)
    maker = Maker(seed + 1)
    return Trace(
        "cancel",
        [
            replace(request, cancel_ms=maker.uniform(0, 10e3)) if maker.chance(0.4) else request
            for request in base.requests
        ],
    )


def scarce(seed: int) -> Trace:
    """Stories that share 4096 tokens of KV: pages run out all the time."""
    return replace(story(seed), name="scarce", pages=256)


TRACES: dict[str, Callable[[int], Trace]] = {
    make.__name__: make for make in (chat, rag, story, burst, long, equal, cancel, scarce)
}
