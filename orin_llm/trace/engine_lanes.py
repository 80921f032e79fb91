"""The engine's lanes of a trace: steps and their parts, what the host did between, pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from orin_llm.bench.records import RequestRecord
from orin_llm.engine import StepRecord
from orin_llm.trace.events import Clock, Event, Group, Lane
from orin_llm.trace.parts import gaps, take_apart

ENGINE = Group(2, "engine")
PREFILL = Lane(ENGINE, 1, "prefill chunks")
DECODE = Lane(ENGINE, 2, "decode steps")
COMPUTATION = Lane(ENGINE, 3, "computation")
SAMPLING = Lane(ENGINE, 4, "sampling")
GAPS = Lane(ENGINE, 5, "host gaps")
PAGES = Lane(ENGINE, 6, "page events")
_MIB = 1 << 20
_PAUSE_MS = 1.0  # between steps, from which on no tokens are shown


def step_events(clock: Clock, steps: Sequence[StepRecord]) -> Iterator[Event]:
    """Every step, its computation and sampling, its pages, and counters after it."""
    yield from ENGINE.describe()
    for lane in (PREFILL, DECODE, COMPUTATION, SAMPLING, PAGES):
        yield from lane.describe()
    ended = computed = float("-inf")  # rounding may not lay one step over another
    for step in steps:
        parts = take_apart(step)
        lane, name = (PREFILL, "prefill") if step.n_prompt_tokens else (DECODE, "decode")
        args = {
            "number": step.number,
            "prompt_tokens": step.n_prompt_tokens,
            "decode_tokens": step.n_decode_tokens,
            "compute_ms": step.compute_ms,
            "sampling_ms": step.sampling_ms,
            "host_ms": step.host_ms,
            "page_lookups": step.kv_lookups,
            "page_misses": step.kv_misses,
        }
        start = max(parts.whole[0], ended)
        if _PAUSE_MS < start - ended < float("inf"):
            yield from _tokens(clock, ended, 0, 0)
        ended = max(start, parts.whole[1])
        yield clock.slice(lane, name, start, ended, args)
        start = max(parts.computation[0], computed)
        computed = max(start, parts.sampling[1])
        yield clock.slice(COMPUTATION, name, start, max(start, parts.computation[1]), {})
        if step.sampling_ms > 0:
            yield clock.slice(SAMPLING, "sampling", max(start, parts.sampling[0]), computed, {})
        yield from _page_events(clock, step)
        yield from _counters(clock, step, ended)
    if steps:
        yield from _tokens(clock, ended, 0, 0)


def merged_step_events(clock: Clock, steps: Sequence[StepRecord], size: int) -> Iterator[Event]:
    """Up to `size` neighbours of one kind as one slice; pages only where some were given up."""
    yield from ENGINE.describe()
    for lane in (PREFILL, DECODE, PAGES):
        yield from lane.describe()
    first = 0
    while first < len(steps):
        kind = bool(steps[first].n_prompt_tokens)
        last = first
        while (
            last + 1 < len(steps)
            and last + 1 - first < size
            and bool(steps[last + 1].n_prompt_tokens) == kind
        ):
            last += 1
        group = steps[first : last + 1]
        end = take_apart(group[-1]).whole[1]
        args = {
            "steps": len(group),
            "longest_ms": max(step.duration_ms for step in group),
            "prompt_tokens": sum(step.n_prompt_tokens for step in group),
            "decode_tokens": sum(step.n_decode_tokens for step in group),
            "compute_ms": sum(step.compute_ms for step in group),
            "sampling_ms": sum(step.sampling_ms for step in group),
            "host_ms": sum(step.host_ms for step in group),
        }
        lane, name = (PREFILL, "prefill") if kind else (DECODE, "decode")
        yield clock.slice(lane, name, group[0].started_ms, end, args)
        for step in group:
            if step.kv_evictions or step.preemptions:
                yield from _page_events(clock, step)
        yield from _counters(clock, group[-1], end)
        first = last + 1


def gap_events(
    clock: Clock, steps: Sequence[StepRecord], requests: Iterable[RequestRecord]
) -> Iterator[Event]:
    """What the host did while nothing was computed."""
    yield from GAPS.describe()
    ended = float("-inf")
    for gap in gaps(steps, requests):
        start = max(gap.start_ms, ended)
        ended = max(start, gap.end_ms)
        yield clock.slice(GAPS, gap.kind, start, ended, {"step": gap.number})


def _page_events(clock: Clock, step: StepRecord) -> Iterator[Event]:
    """At the beginning of the step that they were for."""
    for name, count in (
        ("pages taken", step.kv_misses),
        ("pages evicted", step.kv_evictions),
        ("preempted", step.preemptions),
    ):
        if count:
            args = {"count": count, "step": step.number}
            yield clock.instant(PAGES, name, step.started_ms, args)


def _counters(clock: Clock, step: StepRecord, end_ms: float) -> Iterator[Event]:
    if step.kv_bytes_committed:
        sizes = {"used": step.kv_bytes_used / _MIB, "committed": step.kv_bytes_committed / _MIB}
        yield from clock.counter(ENGINE, "KV cache (MiB)", end_ms, sizes)
        yield from clock.counter(ENGINE, "KV cache (tokens)", end_ms, {"tokens": step.kv_tokens})
    yield from _tokens(clock, step.started_ms, step.n_prompt_tokens, step.n_decode_tokens)


def _tokens(clock: Clock, at_ms: float, prompt: int, decode: int) -> Iterator[Event]:
    values = {"prompt": prompt, "decode": decode}
    yield from clock.counter(ENGINE, "tokens in a step", at_ms, values)
