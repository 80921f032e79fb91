"""An engine's figures: batch, speed, latencies, KV cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from orin_llm.cli.live.charts import Mark
from orin_llm.cli.live.measure import OVER, Measure, phrases, tone_of
from orin_llm.cli.live.text import Line, Span, Tone
from orin_llm.cli.numbers import MISSING, amount, limit, sizes, whole
from orin_llm.host.units import counted
from orin_llm.monitor.state import Alert, EngineFigures
from orin_llm.monitor.thresholds import Threshold, Thresholds

_BEYOND = 1.5  # of a limit: where its bar ends


def engine_key(engine: EngineFigures, figure: str) -> str:
    """Of the figure's past; an engine with another process has another past."""
    return f"{engine.name}/{engine.pid}/{figure}"


def engine_values(engine: EngineFigures) -> dict[str, float | None]:
    """What is remembered of an engine."""
    values = {
        "batch": float(engine.running),
        "prefill": engine.prefill_tokens_per_s,
        "decode": engine.decode_tokens_per_s,
        "ttft": None if engine.ttft_ms is None else engine.last_ttft_ms,
        "tpot": None if engine.tpot_ms is None else engine.last_tpot_ms,
        "kv": engine.kv_used,
    }
    return {engine_key(engine, figure): value for figure, value in values.items()}


def engine_measures(
    engine: EngineFigures, alerts: Sequence[Alert], thresholds: Thresholds
) -> list[Measure]:
    """All that an engine has."""
    own = [alert for alert in alerts if alert.subject == engine.name]
    ttft = _latency(
        engine,
        own,
        "TTFT",
        "ttft_ms",
        engine.ttft_ms,
        engine.last_ttft_ms,
        engine.window_answers,
        thresholds.ttft_ms,
    )
    tpot = _latency(
        engine,
        own,
        "TPOT",
        "tpot_ms",
        engine.tpot_ms,
        engine.last_tpot_ms,
        engine.tpot_window_answers,
        thresholds.tpot_ms,
    )
    step = "" if engine.step_ms is None else f"step {amount(engine.step_ms, 'ms')}"
    return [
        _batch(engine),
        _rate(engine, "prefill", "Prefill", engine.prefill_tokens_per_s, "", rank=1),
        _rate(engine, "decode", "Decode", engine.decode_tokens_per_s, step, rank=0),
        ttft,
        tpot,
        _kv(engine, own, thresholds.kv_used),
    ]


def model_name(engine: EngineFigures) -> str:
    """Its file, without the folder."""
    return PurePath(engine.model).name or MISSING


def engine_row(engine: EngineFigures, alerts: Sequence[Alert], is_chosen: bool) -> Line:
    """In a list of several; one with an alert is marked, and its KV cache where that is full."""
    rules = {alert.rule for alert in alerts if alert.subject == engine.name}
    tone: Tone = "strong" if is_chosen else "dim"
    batch = f"{engine.running} running"
    speed = amount(engine.decode_tokens_per_s, "tok/s")
    kv = whole(None if engine.kv_used is None else 100 * engine.kv_used, "% KV")
    if "kv_used" in rules:
        kv = OVER + kv
    return (
        Span("▸" if is_chosen else " ", "key"),
        Span(OVER if rules else " ", "bad"),
        Span(f"{batch:>11}  {speed:>11}  ", tone),
        Span(f"{kv:>8}", "bad" if "kv_used" in rules else tone),
        Span(f"  pid {engine.pid:<7} {model_name(engine)}", tone),
    )


def _batch(engine: EngineFigures) -> Measure:
    most = engine.max_running
    return Measure(
        engine_key(engine, "batch"),
        "Batch",
        f"{engine.running} of {most}" if most else f"{engine.running}",
        engine.running / most if most else None,
        top=float(most) if most else None,
        has_bar=most > 0,
        phrases=(
            Span(f"{engine.waiting} waiting", "warn" if engine.waiting else "dim"),
            *phrases(counted(engine.answers, "answer")),
        ),
        rank=1,
    )


def _rate(
    engine: EngineFigures, figure: str, label: str, value: float | None, more: str, rank: int
) -> Measure:
    return Measure(
        engine_key(engine, figure),
        label,
        "computing" if engine.is_computing else amount(value, "tok/s"),
        top=None,
        has_bar=False,
        phrases=phrases(more),
        rank=rank,
    )


def _latency(
    engine: EngineFigures,
    alerts: Sequence[Alert],
    label: str,
    rule: str,
    mean: float | None,
    last: float | None,
    answers: int,
    threshold: Threshold,
) -> Measure:
    bound = threshold.above if threshold.enabled else None
    whole_bar = bound * _BEYOND if bound else None
    return Measure(
        engine_key(engine, label.lower()),
        label,
        amount(mean, "ms"),
        mean / whole_bar if mean is not None and whole_bar else None,
        top=whole_bar,
        has_bar=whole_bar is not None,
        marks=(Mark(1 / _BEYOND, "warn"),) if bound else (),
        phrases=phrases(
            f"{answers} of {threshold.window} answers" if mean is None else "",
            "" if last is None else f"last {amount(last, 'ms')}",
            f"limit {limit(bound, 'ms')}" if bound else "",
            "" if mean is None else f"mean of {threshold.window}",
        ),
        tone=tone_of(rule, alerts, mean, bound),
    )


def _kv(engine: EngineFigures, alerts: Sequence[Alert], threshold: Threshold) -> Measure:
    bound = threshold.above if threshold.enabled else None
    used, total = engine.kv_pages_used, engine.kv_pages_total
    size, reserved = engine.kv_bytes_used, engine.kv_bytes_reserved
    hits = engine.hit_rate
    return Measure(
        engine_key(engine, "kv"),
        "KV",
        whole(None if engine.kv_used is None else 100 * engine.kv_used, "%"),
        engine.kv_used,
        marks=(Mark(bound, "warn"),) if bound else (),
        phrases=phrases(
            "" if used is None else f"{used} of {MISSING if total is None else total} pages",
            "" if size is None else sizes(size, reserved),
            "" if hits is None else f"hits {100 * hits:.1f} %",
        ),
        tone=tone_of("kv_used", alerts, engine.kv_used, bound),
    )
