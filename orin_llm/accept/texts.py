"""How reports write figures and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orin_llm.accept.indicators import Criterion
from orin_llm.accept.outcome import Judgement, Outcome
from orin_llm.accept.result import Acceptance
from orin_llm.bench.tables import stamp_line

NOT_MEASURED = "not measured"


def verdict(acceptance: Acceptance) -> str:
    """`accepted: 6 passed, 1 not measurable`."""
    counts = ", ".join(f"{n} {status}" for status, n in acceptance.counts.items() if n)
    said = "interrupted" if acceptance.interrupted else "not accepted"
    return f"{'accepted' if acceptance.accepted else said}: {counts}"


def value_text(judgement: Judgement) -> str:
    """`3.21 ms`; digits enough to tell it from its limit."""
    value, limit = judgement.value, judgement.limit
    if value is None:
        return NOT_MEASURED
    text = number(value)
    if limit is not None and float(text) == limit.value != value:
        text = repr(value)
    return with_unit(text, judgement.criterion)


def limit_text(judgement: Judgement) -> str:
    """`< 15 ms`, or a dash where there is none."""
    if judgement.limit is None:
        return "–"
    limit = with_unit(f"{judgement.limit.value:g}", judgement.criterion)
    return f"{judgement.criterion.sign} {limit}"


def number(value: float) -> str:
    """Whole numbers as they are, others with three digits or more."""
    if value == int(value):
        return f"{value:.0f}"
    digits = 4 if abs(value) < 2 else 2 if abs(value) < 100 else 1
    return f"{value:.{digits}f}"


def with_unit(text: str, criterion: Criterion) -> str:
    """`15 ms`, `22/s`, `0`."""
    return text + ("" if criterion.unit in ("", "/s") else " ") + criterion.unit


def reason_lines(outcome: Outcome) -> list[str]:
    """What has to be said about an outcome, each with the indicator's number in front."""
    return [f"{outcome.indicator.number}: {reason}" for reason in outcome.reasons]


def beside_text(outcome: Outcome) -> str:
    """`ttft_mean_ms 31.2, ttft_min_ms 30.1`."""
    return ", ".join(f"{name} {number(value)}" for name, value in outcome.beside.items())


def machine_text(environment: Mapping[str, Any]) -> str:
    """What is known of the machine and how it is set, in one line."""
    stamp = environment["stamp"]
    name = [] if stamp["module"] else [stamp["board"]]
    lines = [line.strip() for line in stamp_line(environment)]
    rest = [stamp["gpu"], f"{stamp['cpu']}, {stamp['cores']} cores"]
    return ", ".join(part for part in (*name, *lines, *rest) if part)


def engine_text(settings: Mapping[str, Any]) -> str:
    """How the engine ran, in one line; "" where there was none."""
    names = ("threads", "chunk_size", "page_size", "kv_type", "n_ctx", "max_batch")
    known = [f"{name} {settings[name]}" for name in names if name in settings]
    return ", ".join([str(settings["name"]), *known]) if known else ""
