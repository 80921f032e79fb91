"""Starts for people: Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orin_llm.bench.distribution import Spread
from orin_llm.bench.result import Report
from orin_llm.bench.start_result import StartResult
from orin_llm.bench.tables import (
    RATIOS_EXPLAINED,
    machine_lines,
    number,
    outlier_lines,
    ratio,
    table,
)
from orin_llm.host.units import counted, size_text

EXPLAINED = (
    "Milliseconds, medians of new processes. Open, read and upload make up weights; weights, "
    "warm-up (contexts, first graphs) and first token make up TTFT. Not in it: the process, which "
    "starts Python and imports. Again: the same prompt once more."
)
_PARTS = {
    "process_ms": "process",
    "open_ms": "open",
    "read_ms": "read",
    "upload_ms": "upload",
    "weights_ms": "weights",
    "warmup_ms": "warm-up",
    "first_token_ms": "first token",
    "ttft_ms": "TTFT",
    "again_ms": "again",
}
_SIZES = {
    "read_bytes_per_s": "read /s",
    "load_bytes_per_s": "weights /s",
    "peak_bytes": "peak of the load",
    "cached_after_bytes": "page cache after",
}
_RATIOS = {"weights_ms": "weights", "ttft_ms": "TTFT"}


def starts_to_markdown(report: Report[StartResult]) -> str:
    """What was measured where, then the parts, the rates and the ratios."""
    results = report.results
    first = results[0]
    times = counted(first.repetitions, "repetition")
    head = [
        *machine_lines(report.environment),
        f"threads {first.engine['threads']}, chunk_size {first.engine['chunk_size']}; "
        f"{times} after {first.warmup} to "
        f"warm up, greedy, seed {first.seed}",
        "",
        EXPLAINED,
        "",
    ]
    apart = outlier_lines([[r.label, str(r.engine["name"])] for r in results], results)
    tables = [_parts(results), _sizes(results), _ratios(results), apart]
    return "\n".join([*head, *(found for found in tables if found), ""])


def _parts(results: Sequence[StartResult]) -> str:
    rows = [
        [r.label, str(r.engine["name"]), *(_median(r.figures, name) for name in _PARTS)]
        for r in results
        if "ttft_ms" in r.figures
    ]
    return table("workload", "engine", *_PARTS.values(), rows=rows)


def _sizes(results: Sequence[StartResult]) -> str:
    rows = []
    for r in results:
        sizes = [size_text(r.figures[n].median) if n in r.figures else "" for n in _SIZES]
        of_disk = f"{100 * r.figures['of_disk'].median:.0f} %" if "of_disk" in r.figures else ""
        rows.append([r.label, str(r.engine["name"]), *sizes, of_disk])
    return table("workload", "engine", *_SIZES.values(), "of the disk", rows=rows)


def _ratios(results: Sequence[StartResult]) -> str:
    """How many times as fast the first contender was."""
    rows = []
    first = ""
    for r in results:
        name = str(r.engine["name"])
        if not r.speedup:
            first = name
        elif "ttft_ms" in r.speedup:
            ratios = (ratio(r.speedup.get(figure)) for figure in _RATIOS)
            rows.append([r.label, f"{first} over {name}", *ratios])
    found = table("workload", "times as fast", *_RATIOS.values(), rows=rows)
    return f"{found}\n{RATIOS_EXPLAINED}\n" if found else ""


def _median(figures: Mapping[str, Spread], name: str) -> str:
    return number(figures[name].median) if name in figures else ""
