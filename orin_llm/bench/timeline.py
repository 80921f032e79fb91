"""What the sensors said over the time of one run, in few enough points for a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orin_llm.bench.phase_work import Span, phase_work
from orin_llm.bench.records import Run
from orin_llm.device.reading import Reading, mean

MAX_POINTS = 400
MAX_PHASES = 400
_SENSORS = (
    "power_w", "emc_percent", "emc_mhz", "bandwidth_gb_s", "gpu_percent", "gpu_mhz", "cpu_percent",
    "hottest_c",
)  # fmt: skip
_DIGITS = 3


@dataclass(frozen=True)
class PhaseSpan:
    """A time in which the engine did one thing: `prefill` or `decode`."""

    start_ms: float
    end_ms: float
    name: str


@dataclass(frozen=True)
class Timeline:
    """One run; times since its first request.

    Attributes:
        at_ms: of the readings, or of the middle of as many as make a point.
        sensors: their values at these times; those that no reading has are missing.
        phases: in order, without overlap.
    """

    at_ms: tuple[float, ...]
    sensors: dict[str, tuple[float | None, ...]]
    phases: tuple[PhaseSpan, ...]


def timeline(run: Run) -> Timeline | None:
    """None without readings, or without requests."""
    if not run.readings or not run.requests:
        return None
    _, _, whole = phase_work([run], None)
    begin = whole.spans[0][0]
    size = -(-len(run.readings) // MAX_POINTS)
    groups = [run.readings[at : at + size] for at in range(0, len(run.readings), size)]
    values = {name: tuple(_mean(group, name) for group in groups) for name in _SENSORS}
    return Timeline(
        at_ms=tuple(round(_middle(group) - begin, _DIGITS) for group in groups),
        sensors={name: v for name, v in values.items() if any(one is not None for one in v)},
        phases=phase_spans(run, begin),
    )


def phase_spans(run: Run, begin_ms: float) -> tuple[PhaseSpan, ...]:
    """The phases of a run, since `begin_ms`; MAX_PHASES at most."""
    spans = [
        ((s.started_ms, s.started_ms + s.duration_ms), "prefill" if s.n_prompt_tokens else "decode")
        for s in run.steps
    ]
    if not spans:
        prefill, decode, _ = phase_work([run], None)
        spans = [(span, "prefill") for span in prefill.spans]
        spans += [(span, "decode") for span in decode.spans]
    spans.sort()
    if not spans:
        return ()
    whole = (spans[0][0][0], max(end for (_, end), _ in spans))
    return tuple(
        PhaseSpan(round(start - begin_ms, _DIGITS), round(stop - begin_ms, _DIGITS), name)
        for (start, stop), name in _bounded(spans, whole)
    )


def _middle(group: Sequence[Reading]) -> float:
    return sum(reading.at_ms for reading in group) / len(group)


def _mean(group: Sequence[Reading], name: str) -> float | None:
    value = mean(getattr(reading, name) for reading in group)
    return None if value is None else round(value, _DIGITS)


def _bounded(spans: Sequence[tuple[Span, str]], whole: Span) -> list[tuple[Span, str]]:
    """Neighbours of one kind as one; if that is too many, what most of each of equal slots is."""
    near = (whole[1] - whole[0]) / MAX_PHASES
    joined = _joined(spans, near)
    if len(joined) <= MAX_PHASES:
        return joined
    most: list[dict[str, float]] = [{} for _ in range(MAX_PHASES)]
    for (start, end), name in joined:
        first, last = (int((at - whole[0]) / near) for at in (start, end))
        for slot in range(max(first, 0), min(last, MAX_PHASES - 1) + 1):
            low, high = whole[0] + slot * near, whole[0] + (slot + 1) * near
            share = max(0.0, min(end, high) - max(start, low))
            most[slot][name] = most[slot].get(name, 0.0) + share
    slots = [
        ((whole[0] + slot * near, whole[0] + (slot + 1) * near), max(found, key=found.__getitem__))
        for slot, found in enumerate(most)
        if found
    ]
    return _joined(slots, near / 2)


def _joined(spans: Sequence[tuple[Span, str]], near: float) -> list[tuple[Span, str]]:
    """Spans of one kind that follow each other without another between them, nor a long pause."""
    joined: list[tuple[Span, str]] = []
    for (start, end), name in spans:
        if joined and joined[-1][1] == name and start - joined[-1][0][1] <= near:
            joined[-1] = ((joined[-1][0][0], end), name)
        else:
            joined.append(((start, end), name))
    return joined
