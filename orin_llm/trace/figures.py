"""What a trace comes to: time, pages and power by phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orin_llm.bench.records import Run
from orin_llm.device.phases import Activity, step_phases
from orin_llm.device.reading import mean
from orin_llm.engine import StepRecord
from orin_llm.trace.parts import Gap, gaps, take_apart


@dataclass(frozen=True)
class PhaseFigures:
    """All steps of one kind.

    Attributes:
        prompt_tokens, decode_tokens: computed in them.
        host_ms: neither computation nor sampling.
        kv_bytes_after: in used pages, after the last of them; None without a step or pages.
        kv_bytes_peak: the most after any of them.
    """

    steps: int
    prompt_tokens: int
    decode_tokens: int
    duration_ms: float
    compute_ms: float
    sampling_ms: float
    host_ms: float
    longest_step_ms: float | None
    kv_bytes_after: int | None
    kv_bytes_peak: int | None
    activity: Activity


@dataclass(frozen=True)
class Pages:
    """The KV cache in the run; see StepRecord."""

    lookups: int
    misses: int
    evictions: int
    preemptions: int

    @property
    def hit_rate(self) -> float | None:
        """None where no page was read."""
        return 1 - self.misses / self.lookups if self.lookups else None


@dataclass(frozen=True)
class Figures:
    """One run.

    Attributes:
        wall_ms: from the first request, or step, to the last end.
        gaps_ms: time with requests in which nothing was computed, by what the host did.
        longest_gap: of these.
        ttft_ms, tpot_ms: means over the requests that have one.
    """

    wall_ms: float
    requests: int
    failed: int
    ttft_ms: float | None
    tpot_ms: float | None
    prefill: PhaseFigures
    decode: PhaseFigures
    gaps_ms: dict[str, float]
    longest_gap: Gap | None
    pages: Pages | None

    def to_json(self) -> dict[str, Any]:
        """All of it; null is what was not measured."""
        found = asdict(self)
        if self.pages is not None:
            found["pages"]["hit_rate"] = self.pages.hit_rate
        return found


def figures(run: Run, max_gap_ms: float) -> Figures:
    """Sum up a run. `max_gap_ms`: readings further apart do not tell of the time between them."""
    prefill = [step for step in run.steps if step.n_prompt_tokens]
    decode = [step for step in run.steps if not step.n_prompt_tokens]
    activities = step_phases(run.readings, run.steps, max_gap_ms)
    between = list(gaps(run.steps, run.requests))
    kinds = sorted({gap.kind for gap in between})
    completed = run.completed()
    return Figures(
        wall_ms=_wall_ms(run),
        requests=len(run.requests),
        failed=len(run.requests) - len(completed),
        ttft_ms=mean(request.ttft_ms for request in completed),
        tpot_ms=mean(request.tpot_ms for request in completed),
        prefill=_phase(prefill, activities.prefill),
        decode=_phase(decode, activities.decode),
        gaps_ms={k: sum(g.duration_ms for g in between if g.kind == k) for k in kinds},
        longest_gap=max(between, key=lambda gap: gap.duration_ms, default=None),
        pages=_pages(run.steps),
    )


def _phase(steps: Sequence[StepRecord], activity: Activity) -> PhaseFigures:
    paged = [step.kv_bytes_used for step in steps if step.kv_bytes_committed]
    return PhaseFigures(
        steps=len(steps),
        prompt_tokens=sum(step.n_prompt_tokens for step in steps),
        decode_tokens=sum(step.n_decode_tokens for step in steps),
        duration_ms=sum(step.duration_ms for step in steps),
        compute_ms=sum(step.compute_ms for step in steps),
        sampling_ms=sum(step.sampling_ms for step in steps),
        host_ms=sum(max(step.host_ms, 0.0) for step in steps),
        longest_step_ms=max((step.duration_ms for step in steps), default=None),
        kv_bytes_after=paged[-1] if paged else None,
        kv_bytes_peak=max(paged, default=None),
        activity=activity,
    )


def _pages(steps: Sequence[StepRecord]) -> Pages | None:
    """None where nothing is paged."""
    if not any(step.kv_bytes_committed for step in steps):
        return None
    return Pages(
        sum(step.kv_lookups for step in steps),
        sum(step.kv_misses for step in steps),
        sum(step.kv_evictions for step in steps),
        sum(step.preemptions for step in steps),
    )


def _wall_ms(run: Run) -> float:
    spans = [(r.submitted_ms, r.finished_ms) for r in run.requests]
    spans += [take_apart(step).whole for step in run.steps]
    return max((end for _, end in spans), default=0.0) - min((s for s, _ in spans), default=0.0)
