"""Steps taken apart: when the model was computed, when tokens were drawn, and what lay between."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from orin_llm.bench.records import RequestRecord
from orin_llm.engine import StepRecord

Span = tuple[float, float]  # (start, end) in ms

PREPARE = "plan and upload"
HAND_OUT = "hand out"
BETWEEN = "between steps"


@dataclass(frozen=True)
class Parts:
    """One step. Where two are under way its computation may begin before it: see StepRecord."""

    whole: Span
    computation: Span
    sampling: Span


@dataclass(frozen=True)
class Gap:
    """Time in which requests were there, and neither was computed nor drawn.

    Attributes:
        kind: what the host did.
        number: of the step that it was for, or had been for (handing out).
    """

    start_ms: float
    end_ms: float
    kind: str
    number: int

    @property
    def duration_ms(self) -> float:
        return self.end_ms - self.start_ms


def take_apart(step: StepRecord) -> Parts:
    """By its durations: computation, sampling and handing out follow one another at its end."""
    end = step.started_ms + step.duration_ms
    drawn = end - step.publish_ms
    computed = drawn - step.sampling_ms
    return Parts((step.started_ms, end), (computed - step.compute_ms, computed), (computed, drawn))


def gaps(steps: Sequence[StepRecord], requests: Iterable[RequestRecord]) -> Iterator[Gap]:
    """What the host took between computations, in order; not the time without any request.

    Where the next step is under way before the one before is handed out there is nothing between.
    """
    present = _joined((r.submitted_ms, r.finished_ms) for r in requests)
    before: StepRecord | None = None
    busy_until = float("-inf")
    for step in steps:
        parts = take_apart(step)
        begins = parts.computation[0]
        pieces = []
        if before is not None:
            ended = take_apart(before).whole[1]
            pieces.append((busy_until, ended, HAND_OUT, before.number))
            pieces.append((ended, parts.whole[0], BETWEEN, step.number))
        pieces.append((parts.whole[0], begins, PREPARE, step.number))
        for start, end, kind, number in pieces:
            start, end = max(start, busy_until), min(end, begins)
            if end <= start:
                continue
            if kind != BETWEEN or not present:
                yield Gap(start, end, kind, number)
                continue
            for overlap in _overlaps((start, end), present):
                yield Gap(*overlap, kind, number)
        busy_until = parts.sampling[1]
        before = step
    if before is not None and (end := take_apart(before).whole[1]) > busy_until:
        yield Gap(busy_until, end, HAND_OUT, before.number)


def _overlaps(span: Span, others: Sequence[Span]) -> Iterator[Span]:
    """With spans that are in order and apart."""
    first = bisect_right(others, span[0], key=lambda other: other[1])
    for start, end in others[first:]:
        if start >= span[1]:
            return
        yield max(start, span[0]), min(end, span[1])


def _joined(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
