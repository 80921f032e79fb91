"""What a profile of the GPU comes to, by phase: kernels by time, gaps, copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orin_llm.trace.nsys_export import OTHER, PHASES, Export, Work

BETWEEN = "between phases"
_MS = 1e6  # nanoseconds


@dataclass(frozen=True)
class Named:
    """All work of one name. Times in milliseconds; bytes are 0 for kernels."""

    name: str
    kind: str
    count: int
    total_ms: float
    longest_ms: float
    copied_bytes: int


@dataclass(frozen=True)
class Gaps:
    """Time in which the GPU had nothing to do, between two pieces of work."""

    count: int
    total_ms: float
    longest_ms: float


@dataclass(frozen=True)
class Phase:
    """One phase.

    Attributes:
        steps: that were started.
        busy_ms: with work of this phase, counted once where streams overlap.
        kernels: and graphs, those with the most time first.
        copies: memcpy and memset, likewise.
        gaps: between two pieces of its own work, with no other work between them.
    """

    name: str
    steps: int
    busy_ms: float
    kernels: tuple[Named, ...]
    copies: tuple[Named, ...]
    gaps: Gaps

    @property
    def kernels_ms(self) -> float:
        return sum(kernel.total_ms for kernel in self.kernels)


@dataclass(frozen=True)
class Summary:
    """The whole profile.

    Attributes:
        span_ms: from the first work to the end of the last; busy_ms: of it, with any work.
        between: gaps between work of two phases.
        by_launch: see Export.
    """

    span_ms: float
    busy_ms: float
    phases: tuple[Phase, ...]
    between: Gaps
    by_launch: bool

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def summarize(export: Export) -> Summary:
    """Sum up the work of an export; phases without any are left out."""
    work = export.work
    gaps = _gaps(work)
    phases = []
    for name in (*PHASES, OTHER):
        own = [one for one in work if one.phase == name]
        if not own:
            continue
        phases.append(
            Phase(
                name,
                export.steps.get(name, 0),
                _busy_ms(own),
                _named(one for one in own if one.kind in ("kernel", "graph")),
                _named(one for one in own if one.kind in ("memcpy", "memset")),
                _sum(gaps.get(name, ())),
            )
        )
    return Summary(
        (max(one.end_ns for one in work) - work[0].start_ns) / _MS,
        _busy_ms(work),
        tuple(phases),
        _sum(gaps.get(BETWEEN, ())),
        export.by_launch,
    )


def _gaps(work: Sequence[Work]) -> dict[str, list[float]]:
    """Their lengths in ms, by the phase that both sides have."""
    found: dict[str, list[float]] = {}
    last = work[0]
    for one in work[1:]:
        if one.start_ns > last.end_ns:
            phase = one.phase if one.phase == last.phase else BETWEEN
            found.setdefault(phase, []).append((one.start_ns - last.end_ns) / _MS)
        if one.end_ns > last.end_ns:
            last = one
    return found


def _busy_ms(work: Sequence[Work]) -> float:
    """The union, of work in order of its start; times may lie before zero."""
    total, until = 0, work[0].start_ns
    for one in work:
        total += max(0, one.end_ns - max(one.start_ns, until))
        until = max(until, one.end_ns)
    return total / _MS


def _named(work: Iterable[Work]) -> tuple[Named, ...]:
    groups: dict[tuple[str, str], list[Work]] = {}
    for one in work:
        groups.setdefault((one.kind, one.name), []).append(one)
    found = [
        Named(
            name,
            kind,
            len(group),
            sum(one.end_ns - one.start_ns for one in group) / _MS,
            max(one.end_ns - one.start_ns for one in group) / _MS,
            sum(one.copied_bytes for one in group),
        )
        for (kind, name), group in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.total_ms, one.kind, one.name)))


def _sum(lengths: Sequence[float]) -> Gaps:
    return Gaps(len(lengths), sum(lengths), max(lengths, default=0.0))
