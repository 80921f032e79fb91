"""Results for people: Markdown tables that read well as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orin_llm.bench.distribution import Spread
from orin_llm.bench.result import Report, Result
from orin_llm.host.units import size_text
from orin_llm.models.describe import count_text
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
}
_LATENCIES = {
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    "itl_ms": "ITL",
    "e2el_ms": "E2EL",
    "queue_ms": "queue",
    "host_ms": "host, a step",
}
_VARIED = {"threads": "t", "chunk_size": "c", "page_size": "page ", "kv_type": ""}

Row = list[str]


def to_markdown(report: Report) -> str:
    """What was measured where, then a table for each kind of figure that there is."""
    results = report.results
    tables = [
        _rates(results),
        _latencies(results),
        _speedups(results),
        _own_figures(results),
        _kv(results),
    ]
    return "\n".join(
        [*_head(report.environment, results), *(table for table in tables if table), ""]
    )


def _head(environment: Mapping[str, Any], results: Sequence[Result]) -> list[str]:
    model, machine, first = environment["model"], environment["machine"], results[0]
    program = f"orin-llm {environment['version']}"
    if environment["commit"]:
        program += f" ({environment['commit']})"
    same = [
        f"{name} {value}"
        for name in _VARIED
        for value in sorted({str(r.engine[name]) for r in results if name in r.engine})
        if name not in _differing(results)
    ]
    return [
        f"{program}, {environment['llama_cpp']}  ",
        f"model {model['name']}: {model['quant']}, {count_text(model['parameters'])} parameters, "
        f"{size_text(model['bytes'])}  ",
        f"{machine['cpu']} ({machine['architecture']}), {machine['cores']} cores, "
        f"device {machine['device']}  ",
        f"{', '.join(same)}; {first.repetitions} repetition{'s' * (first.repetitions != 1)} after "
        f"{first.warmup} to warm up, greedy, seed {first.seed}",
        "",
        EXCLUDED,
        "",
        *(f"failed: {r.failed} of {r.label}: {'; '.join(r.errors)}\n" for r in results if r.failed),
    ]


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
            *(f"{_figure(result.figures.get(name))}" for name in columns),
            str(result.peak_concurrency),
        ]
        for names, result in zip(_names(results), results, strict=True)
    ]
    return _table("workload", "engine", *columns.values(), "at once", rows=rows)


def _latencies(results: Sequence[Result]) -> str:
    rows = []
    for names, result in zip(_names(results), results, strict=True):
        for name, text in _LATENCIES.items():
            if found := result.latency[name]:
                values = [found.mean, *(getattr(found, f"p{p}") for p in PERCENTS)]
                rows.append([*names, text, *map(_number, values)])
    heads = ("workload", "engine", "ms", "mean", *(f"p{p}" for p in PERCENTS))
    return _table(*heads, rows=rows)


def _speedups(results: Sequence[Result]) -> str:
    """Medians of the pairs' ratios, with the least and the greatest."""
    rows = []
    first = ""
    for names, result in zip(_names(results), results, strict=True):
        if not result.speedup:
            first = names[1]
            continue
        ratios = (result.speedup.get(name) for name in _RATIOS)
        rows.append([names[0], f"{first} over {names[1]}", *map(_ratio, ratios)])
    return _table("workload", "times as fast", *_RATIOS.values(), rows=rows)


def _own_figures(results: Sequence[Result]) -> str:
    known = {**_RATES, **_RATIOS}
    rows = [
        [*names, name, *map(_number, (found.median, found.min, found.max))]
        for names, result in zip(_names(results), results, strict=True)
        for name, found in result.figures.items()
        if name not in known
    ]
    return _table("workload", "engine", "figure", "median", "min", "max", rows=rows)


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
    return _table("workload", "engine", *heads, rows=rows)


def _table(*heads: str, rows: Iterable[Row]) -> str:
    """A table whose columns line up, numbers to the right; nothing without rows."""
    body = [list(row) for row in rows]
    if not body:
        return ""
    text_columns = [any(not _is_number(row[c]) for row in body) for c in range(len(heads))]
    widths = [max(len(line[c]) for line in [list(heads), *body]) for c in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if is_text else cell.rjust(width)
            for cell, width, is_text in zip(cells, widths, text_columns, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    rule = "|".join(
        "-" * (width + 2) if is_text else "-" * (width + 1) + ":"
        for width, is_text in zip(widths, text_columns, strict=True)
    )
    return "\n".join([line(heads), f"|{rule}|", *map(line, body), ""])


def _is_number(cell: str) -> bool:
    return cell == "" or cell[0].isdigit()


def _figure(spread: Spread | None) -> str:
    if spread is None:
        return ""
    digits = 1 if spread.mean < 1000 else 0
    return f"{spread.mean:.{digits}f} ± {spread.std:.{digits}f}"


def _ratio(spread: Spread | None) -> str:
    return f"{spread.median:.3f} ({spread.min:.3f} … {spread.max:.3f})" if spread else ""


def _number(value: float) -> str:
    digits = 3 if value < 10 else 1 if value < 1000 else 0
    return f"{value:.{digits}f}"
