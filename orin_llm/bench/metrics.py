"""The figures of runs, as serving benchmarks define them (docs/bench.md). Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from orin_llm.bench.distribution import Distribution, Spread
from orin_llm.bench.ratios import Ratio, paired
from orin_llm.bench.records import RequestRecord, Run

JOULES = "joules_per_token"


def latencies(runs: Sequence[Run]) -> dict[str, Distribution | None]:
    """TTFT, TPOT, ITL, E2EL and queueing time of all completed requests; host time of all steps."""
    requests = [request for run in runs for request in run.completed()]
    values: dict[str, list[float]] = {
        "ttft_ms": known([r.ttft_ms for r in requests]),
        "tpot_ms": known([r.tpot_ms for r in requests]),
        "itl_ms": [gap for r in requests for gap in r.itl_ms],
        "e2el_ms": [r.e2el_ms for r in requests],
        "queue_ms": known([r.queue_ms for r in requests]),
        "host_ms": [step.host_ms for run in runs for step in run.steps],
    }
    return {name: Distribution.of(found) for name, found in values.items()}


def figures(run: Run) -> dict[str, float]:
    """One run in single numbers; those that it does not have are left out.

    prefill_tokens_per_s: prompt tokens computed over the time from the first request to the last
        first token, if all requests came before any had an answer.
    decode_tokens_per_s: tokens of all requests together while all of them decode.
    requests_per_s, output_tokens_per_s, total_tokens_per_s: over the whole run.
    ttft_ms, tpot_ms: means of the requests.
    """
    requests = [r for r in run.completed() if r.token_ms]
    if not requests:
        return {}
    begin = min(r.submitted_ms for r in requests)
    seconds = (max(r.finished_ms for r in requests) - begin) / 1e3
    output = sum(r.output_tokens for r in requests)
    found = {
        "prefill_tokens_per_s": _prefill_rate(requests),
        "decode_tokens_per_s": _decode_rate(requests),
        "requests_per_s": _rate(len(requests), seconds),
        "output_tokens_per_s": _rate(output, seconds),
        "total_tokens_per_s": _rate(output + sum(r.prompt_tokens for r in requests), seconds),
        "ttft_ms": mean(known([r.ttft_ms for r in requests])),
        "tpot_ms": _mean(known([r.tpot_ms for r in requests])),
    }
    return {name: value for name, value in found.items() if value is not None}


def _prefill_rate(requests: Sequence[RequestRecord]) -> float | None:
    first_tokens = [r.token_ms[0] for r in requests]
    submitted = [r.submitted_ms for r in requests]
    if max(submitted) > min(first_tokens):
        return None
    seconds = (max(first_tokens) - min(submitted)) / 1e3
    return _rate(sum(r.computed_tokens for r in requests), seconds)


def _decode_rate(requests: Sequence[RequestRecord]) -> float | None:
    begin = max(r.token_ms[0] for r in requests)
    end = min(r.token_ms[-1] for r in requests)
    tokens = sum(
        r.output_tokens / len(r.token_ms)
        for r in requests
        for at in r.token_ms
        if begin < at <= end
    )
    return _rate(tokens, (end - begin) / 1e3) if tokens else None


def peak_concurrency(requests: Sequence[RequestRecord]) -> int:
    """The most requests that were submitted and not finished at one moment."""
    changes = [(r.submitted_ms, 1) for r in requests] + [(r.finished_ms, -1) for r in requests]
    running = peak = 0
    for _, change in sorted(changes):  # at one moment an end comes before a beginning
        running += change
        peak = max(peak, running)
    return peak


def kv_figures(run: Run) -> dict[str, float]:
    """Memory of the KV cache: its peaks, and what of it was wasted in the fullest step.

    Of several steps that were as full as any, the first: the others put more tokens there.
    """
    if run.kv is None or not run.steps:
        return {}
    fullest = max(run.steps, key=lambda step: step.kv_bytes_used)
    found: dict[str, float] = {
        "peak_bytes_used": fullest.kv_bytes_used,
        "peak_bytes_committed": max(step.kv_bytes_committed for step in run.steps),
        "bytes_reserved": run.kv.bytes_reserved,
        "hit_rate": run.kv.hit_rate,
    }
    token_bytes = fullest.kv_tokens * run.kv.token_bytes
    if token_bytes:
        found["bytes_over_tokens"] = fullest.kv_bytes_used / token_bytes
        found["fragmentation"] = 1 - token_bytes / fullest.kv_bytes_used
    return found


def spreads(values: Sequence[dict[str, float]]) -> dict[str, Spread]:
    """Each figure over the repetitions that have it."""
    names = dict.fromkeys(name for found in values for name in found)
    spread = {name: Spread.of([v[name] for v in values if name in v]) for name in names}
    return {name: found for name, found in spread.items() if found is not None}


def by_repetition(
    values: Sequence[dict[str, float]],
) -> dict[str, tuple[float | None, ...]]:
    """Each figure in every repetition; None in those that do not have it."""
    names = dict.fromkeys(name for found in values for name in found)
    return {name: tuple(found.get(name) for found in values) for name in names}


def speedups(
    first: Sequence[dict[str, float]], other: Sequence[dict[str, float]]
) -> dict[str, Ratio]:
    """How many times as fast, or as sparing of energy, as the other the first was, by pairs."""
    pairs = [_speedup(a, b) for a, b in zip(first, other, strict=True)]
    names = dict.fromkeys(name for found in pairs for name in found)
    ratios = {name: paired([p[name] for p in pairs if name in p]) for name in names}
    return {name: ratio for name, ratio in ratios.items() if ratio is not None}


def _speedup(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    ratios: dict[str, float] = {}
    for name in a.keys() & b.keys():
        if a[name] <= 0 or b[name] <= 0:
            continue
        if name.endswith("_per_s"):
            ratios[name] = a[name] / b[name]
        elif name.endswith("_ms") or name == JOULES:
            ratios[name] = b[name] / a[name]
    return {name: ratios[name] for name in a if name in ratios}


def known(values: Sequence[float | None]) -> list[float]:
    """Those that are not None."""
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return mean(values) if values else None


def _rate(amount: float, seconds: float) -> float | None:
    return amount / seconds if seconds > 0 else None
