"""Results for people: Markdown tables that read well as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orin_llm.bench.device_markdown import device_tables
from orin_llm.bench.knee import sweeps
from orin_llm.bench.metrics import JOULES
from orin_llm.bench.result import Report, Result
from orin_llm.bench.serve.markdown import server_lines
from orin_llm.bench.tables import (
    RATIOS_EXPLAINED,
    Row,
    figure,
    machine_lines,
    number,
    outlier_lines,
    ratio,
    table,
)
from orin_llm.host.units import counted, size_text
from orin_llm.percentile import PERCENTS

EXCLUDED = (
    "From the request to the token on the engine's thread. Included: queueing, sampling. Excluded: "
    "loading, tokenization, detokenization, warm-up. Prompts are random tokens, answers have "
    "exactly the length asked for."
)
_RATES = {
    "prefill_tokens_per_s": "prefill tok/s",
    "decode_tokens_per_s": "decode tok/s",
    "output_tokens_per_s": "output tok/s",
    "total_tokens_per_s": "total tok/s",
    "requests_per_s": "requests/s",
}
_RATIOS = {
    "prefill_tokens_per_s": "prefill",
    "decode_tokens_per_s": "decode",
    "output_tokens_per_s": "output",
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    JOULES: "J/token",
}
_LATENCIES = {
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    "itl_ms": "ITL",
    "e2el_ms": "E2EL",
    "queue_ms": "queue",
    "host_ms": "host, a step",
    "connect_ms": "connect",
    "late_ms": "sent late",
    "client_lag_ms": "client's lag",
}
_VARIED = {
    "threads": "t",
    "chunk_size": "c",
    "page_size": "page ",
    "kv_type": "",
    "flash_attention": "flash ",
}


def to_markdown(report: Report[Result]) -> str:
    """What was measured where, then a table for each kind of figure that there is."""
    results = report.results
    tables = [
        _rates(results),
        _latencies(results),
        _speedups(results),
        _own_figures(results),
        _kv(results),
        device_tables(_names(results), [result.device for result in results]),
        outlier_lines(_names(results), results),
        _sweeps(results),
    ]
    return "\n".join(
        [*_head(report.environment, results), *(table for table in tables if table), ""]
    )


def _head(environment: Mapping[str, Any], results: Sequence[Result]) -> list[str]:
    failed = [_failed_line(result) for result in results if result.failed]
    if "server" in environment:
        return [*server_lines(environment, results), *failed]
    first = results[0]
    same = [
        f"{name} {value}"
        for name in _VARIED
        for value in sorted({str(r.engine[name]) for r in results if name in r.engine})
        if name not in _differing(results)
    ]
    times = counted(first.repetitions, "repetition")
    return [
        *machine_lines(environment),
        f"{', '.join(same)}; {times} after {first.warmup} to warm up, greedy, seed {first.seed}",
        "",
        EXCLUDED,
        "",
        *failed,
    ]


def _failed_line(result: Result) -> str:
    kinds = ", ".join(f"{count} × {kind}" for kind, count in result.failures.items())
    which = f" ({kinds})" if kinds else ""
    return f"failed: {result.failed} of {result.label}{which}: {'; '.join(result.errors)}\n"


def _differing(results: Sequence[Result]) -> list[str]:
    return [
        name for name in _VARIED if len({r.engine[name] for r in results if name in r.engine}) > 1
    ]


def _names(results: Sequence[Result]) -> list[Row]:
    """The first two cells of a row for each result: the workload, and the engine."""
    differing = _differing(results)
    return [
        [
            r.label,
            " ".join(
                [str(r.engine["name"])]
                + [f"{_VARIED[name]}{r.engine[name]}" for name in differing if name in r.engine]
            ),
        ]
        for r in results
    ]


def _rates(results: Sequence[Result]) -> str:
    """Means and standard deviations over the repetitions."""
    columns = {k: text for k, text in _RATES.items() if any(k in r.figures for r in results)}
    rows = [
        [
            *names,
            *(figure(result.figures.get(name), result.repetitions) for name in columns),
            str(result.peak_concurrency),
        ]
        for names, result in zip(_names(results), results, strict=True)
    ]
    return table("workload", "engine", *columns.values(), "at once", rows=rows)


def _latencies(results: Sequence[Result]) -> str:
    rows = []
    for names, result in zip(_names(results), results, strict=True):
        for name, text in _LATENCIES.items():
            if found := result.latency.get(name):
                values = [found.mean, *(getattr(found, f"p{p}") for p in PERCENTS)]
                rows.append([*names, text, *map(number, values)])
    heads = ("workload", "engine", "ms", "mean", *(f"p{p}" for p in PERCENTS))
    return table(*heads, rows=rows)


def _speedups(results: Sequence[Result]) -> str:
    """How many times as fast the first contender was."""
    rows = []
    first = ""
    columns = {k: text for k, text in _RATIOS.items() if any(k in r.speedup for r in results)}
    for names, result in zip(_names(results), results, strict=True):
        if not result.speedup:
            first = names[1]
            continue
        ratios = (result.speedup.get(name) for name in columns)
        rows.append([names[0], f"{first} over {names[1]}", *map(ratio, ratios)])
    found = table("workload", "times as fast", *columns.values(), rows=rows)
    return f"{found}\n{RATIOS_EXPLAINED}\n" if found else ""


def _own_figures(results: Sequence[Result]) -> str:
    known = {**_RATES, **_RATIOS}
    rows = [
        [*names, name, *map(number, (found.median, found.min, found.max))]
        for names, result in zip(_names(results), results, strict=True)
        for name, found in result.figures.items()
        if name not in known
    ]
    return table("workload", "engine", "figure", "median", "min", "max", rows=rows)


def _kv(results: Sequence[Result]) -> str:
    """The largest peaks and the worst rates of all repetitions.

    Empty where every request ended in its only step: nothing was in use after it, or found in it.
    """
    rows = [
        [
            *names,
            size_text(used) if (used := result.kv["peak_bytes_used"].max) else "",
            size_text(result.kv["peak_bytes_committed"].max),
            f"{waste.max:.3f}" if (waste := result.kv.get("bytes_over_tokens")) else "",
            f"{100 * part.max:.1f} %" if (part := result.kv.get("fragmentation")) else "",
            f"{100 * hits.min:.2f} %" if (hits := result.kv["hit_rate"]).max else "",
        ]
        for names, result in zip(_names(results), results, strict=True)
        if result.kv
    ]
    heads = ("KV used", "committed", "bytes / tokens' own", "fragmentation", "page hits")
    return table("workload", "engine", *heads, rows=rows)


def _sweeps(results: Sequence[Result]) -> str:
    """Where throughput stops paying for latency."""
    found = [f"{s.engine}, {s.label}: {s.text}\n" for s in sweeps(results)]
    return "\n".join(found)
