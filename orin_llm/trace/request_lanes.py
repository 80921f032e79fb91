"""The lanes of requests in a trace: waiting, prefill and decode, and arrows to the engine's."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

from orin_llm.bench.records import RequestRecord
from orin_llm.engine import StepRecord
from orin_llm.trace.engine_lanes import PREFILL
from orin_llm.trace.events import Clock, Event, Group, Lane
from orin_llm.trace.parts import take_apart

MAX_REQUESTS = 20_000
MAX_REQUEST_LANES = 200
_LEAST_MS = 1e-5  # of a step after a request's beginning, for the arrow to end in it
REQUESTS = Group(1, "requests")


def request_places(requests: Sequence[RequestRecord]) -> dict[int, Lane]:
    """A lane for each request by its index: one that is free from its beginning to its end.

    Without one: those beyond MAX_REQUEST_LANES at the same time, or MAX_REQUESTS in all.
    """
    places: dict[int, Lane] = {}
    free: list[int] = []
    taken: list[tuple[float, int]] = []  # (until, lane)
    n_lanes = 0
    for index in sorted(range(len(requests)), key=lambda i: requests[i].submitted_ms):
        request = requests[index]
        while taken and taken[0][0] <= request.submitted_ms:
            heapq.heappush(free, heapq.heappop(taken)[1])
        if len(places) == MAX_REQUESTS or (not free and n_lanes == MAX_REQUEST_LANES):
            continue
        if free:
            number = heapq.heappop(free)
        else:
            n_lanes += 1
            number = n_lanes
        heapq.heappush(taken, (request.finished_ms, number))
        places[index] = Lane(REQUESTS, number, f"request lane {number}")
    return places


def request_events(
    clock: Clock, requests: Sequence[RequestRecord], places: Mapping[int, Lane]
) -> Iterator[Event]:
    """Every request that has a lane."""
    yield from REQUESTS.describe()
    for lane in sorted(set(places.values()), key=lambda lane: lane.tid):
        yield from lane.describe()
    for index, lane in places.items():
        request = requests[index]
        args = {
            "role": request.role,
            "prompt_tokens": request.prompt_tokens,
            "cached_tokens": request.cached_tokens,
            "output_tokens": request.output_tokens,
            "ttft_ms": request.ttft_ms,
            "tpot_ms": request.tpot_ms,
            "longest_itl_ms": max(request.itl_ms, default=None),
            "preemptions": request.preemptions,
            "error": request.error or None,
        }
        name = f"{request.role} {index + 1}"
        yield clock.slice(lane, name, request.submitted_ms, request.finished_ms, args)
        for part, start, end in _request_parts(request):
            yield clock.slice(lane, part, start, end, {}, depth=1)


def flow_events(
    clock: Clock,
    requests: Sequence[RequestRecord],
    all_steps: Sequence[StepRecord],
    places: Mapping[int, Lane],
) -> Iterator[Event]:
    """From each request to the step that began it: the first with prompt tokens from then on."""
    steps = [step for step in all_steps if step.n_prompt_tokens]
    at = 0
    for index in sorted(places, key=lambda i: _computed_ms(requests[i])):
        request = requests[index]
        if request.queue_ms is None or not request.token_ms:
            continue
        computed = _computed_ms(request)
        while at < len(steps) and take_apart(steps[at]).whole[1] - _LEAST_MS <= computed:
            at += 1
        if at == len(steps):
            return
        start = (places[index], request.submitted_ms)
        into = (PREFILL, max(computed, steps[at].started_ms))
        yield from clock.flow(index + 1, "begins", start, into)


def _request_parts(request: RequestRecord) -> Iterator[tuple[str, float, float]]:
    """Waiting, prefill and decode, as far as it came."""
    if not request.token_ms:
        return
    first, last = request.token_ms[0], request.token_ms[-1]
    computed = _computed_ms(request)
    if request.queue_ms:
        yield "waiting", request.submitted_ms, computed
    yield "prefill", computed, first
    if last > first:
        yield "decode", first, min(last, request.finished_ms)


def _computed_ms(request: RequestRecord) -> float:
    """When it was first computed; at the latest with its first token."""
    computed = request.submitted_ms + (request.queue_ms or 0.0)
    return min([computed, *request.token_ms[:1]])
