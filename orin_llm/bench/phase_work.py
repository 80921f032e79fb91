"""The phases of runs: when they were, for how many tokens, and what was read in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from orin_llm.bench.records import Run
from orin_llm.bench.traffic import Traffic
from orin_llm.engine import StepRecord

Span = tuple[float, float]  # (start, end) in ms


@dataclass(frozen=True)
class PhaseWork:
    """One phase of all runs.

    Attributes:
        spans: in order, without overlap.
        tokens: prompt tokens computed (prefill), tokens decoded in steps of their own (decode), or
            tokens of all answers (whole).
        read_bytes: of weights and KV cache; None where that is not known.
    """

    spans: tuple[Span, ...]
    tokens: int
    read_bytes: int | None


def phase_work(
    runs: Sequence[Run], traffic: Traffic | None
) -> tuple[PhaseWork, PhaseWork, PhaseWork]:
    """Prefill, decode, and the whole of runs that followed one another.

    By steps, as `step_phases` takes them apart, where all runs have them. By requests elsewhere:
    prefill ends with the last first token, and the rest is decode; where requests came when others
    had an answer, nothing tells the two apart, and both are empty.
    """
    runs = [run for run in runs if run.requests]
    spans = tuple(_span(run) for run in runs)
    output = sum(request.output_tokens for run in runs for request in run.requests)
    if not all(run.steps for run in runs):
        if not all(map(_came_together, runs)):
            none = PhaseWork((), 0, None)
            return none, none, PhaseWork(spans, output, None)
        return _by_requests(runs, spans, output)
    steps: list[tuple[StepRecord, int | None]] = []
    for run in runs:
        sizes = traffic.steps_bytes(run.steps) if traffic else [None] * len(run.steps)
        steps += zip(run.steps, sizes, strict=True)
    prefill = [(step, size) for step, size in steps if step.n_prompt_tokens]
    decode = [(step, size) for step, size in steps if not step.n_prompt_tokens]
    return (
        _of_steps(prefill, lambda step: step.n_prompt_tokens),
        _of_steps(decode, lambda step: step.n_decode_tokens),
        PhaseWork(spans, output, _total(size for _, size in steps)),
    )


def _came_together(run: Run) -> bool:
    """Whether all requests of a run came before any had an answer."""
    answered = [request.token_ms[0] for request in run.requests if request.token_ms]
    return not answered or max(r.submitted_ms for r in run.requests) <= min(answered)


def _of_steps(
    steps: Sequence[tuple[StepRecord, int | None]], tokens: Callable[[StepRecord], int]
) -> PhaseWork:
    return PhaseWork(
        tuple((step.started_ms, step.started_ms + step.duration_ms) for step, _ in steps),
        sum(tokens(step) for step, _ in steps),
        _total(size for _, size in steps),
    )


def _by_requests(
    runs: Sequence[Run], spans: tuple[Span, ...], output: int
) -> tuple[PhaseWork, PhaseWork, PhaseWork]:
    borders = [
        max((request.token_ms[0] for request in run.requests if request.token_ms), default=end)
        for run, (_, end) in zip(runs, spans, strict=True)
    ]
    prompts = sum(request.computed_tokens for run in runs for request in run.completed())
    answered = sum(1 for run in runs for request in run.requests if request.token_ms)
    parts = list(zip(spans, borders, strict=True))
    return (
        PhaseWork(tuple((start, border) for (start, _), border in parts), prompts, None),
        PhaseWork(tuple((border, end) for (_, end), border in parts), output - answered, None),
        PhaseWork(spans, output, None),
    )


def _span(run: Run) -> Span:
    return (
        min(request.submitted_ms for request in run.requests),
        max(request.finished_ms for request in run.requests),
    )


def _total(sizes: Iterable[int | None]) -> int | None:
    """None without any, or where one is not known."""
    found = list(sizes)
    known = [size for size in found if size is not None]
    return sum(known) if known and len(known) == len(found) else None
