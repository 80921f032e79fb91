"""From the record of a run to the events of its trace.

A trace is bounded: beyond MAX_STEPS neighbours of one kind are one slice, beyond MAX_READINGS only
some readings are shown, and requests that find no lane are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from orin_llm.bench.records import Run
from orin_llm.trace.device_lanes import device_events
from orin_llm.trace.engine_lanes import gap_events, merged_step_events, step_events
from orin_llm.trace.events import Clock, Event
from orin_llm.trace.parts import take_apart
from orin_llm.trace.request_lanes import (
    MAX_REQUEST_LANES,
    MAX_REQUESTS,
    flow_events,
    request_events,
    request_places,
)

MAX_STEPS = 20_000
MAX_READINGS = 20_000


@dataclass(frozen=True)
class Lanes:
    """The events of a run, and what of it is left out for there is too much."""

    events: tuple[Event, ...]
    left_out: tuple[str, ...]


def lanes(run: Run) -> Lanes:
    """Everything that the record of a run tells."""
    clock = Clock(_begin_ms(run))
    left_out: list[str] = []
    places = request_places(run.requests)
    if hidden := len(run.requests) - len(places):
        left_out.append(
            f"{hidden} requests beyond {MAX_REQUESTS}, or {MAX_REQUEST_LANES} at the same time"
        )
    events = list(request_events(clock, run.requests, places))
    if len(run.steps) <= MAX_STEPS:
        events += step_events(clock, run.steps)
        events += gap_events(clock, run.steps, run.requests)
        events += flow_events(clock, run.requests, run.steps, places)
    else:
        size = -(-len(run.steps) // MAX_STEPS)
        left_out.append(
            f"the parts of {len(run.steps)} steps: up to {size} neighbours are one slice"
        )
        events += merged_step_events(clock, run.steps, size)
    every = -(-len(run.readings) // MAX_READINGS)
    if every > 1:
        left_out.append(f"readings: 1 of {every} is shown")
    events += device_events(clock, run.readings[:: max(every, 1)])
    return Lanes(tuple(events), tuple(left_out))


def _begin_ms(run: Run) -> float:
    times = [request.submitted_ms for request in run.requests]
    times += [min(take_apart(s).computation[0], s.started_ms) for s in run.steps[:1]]
    times += [reading.at_ms for reading in run.readings[:1]]
    return min(times, default=0.0)
