"""Markdown tables that read well as they are, and how results write numbers in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from orin_llm.bench.distribution import Spread
from orin_llm.bench.ratios import Ratio
from orin_llm.host.units import size_text
from orin_llm.models.describe import count_text

Row = list[str]
RATIOS_EXPLAINED = (
    "Geometric means of the ratios of runs that took turns, with their 95 % confidence interval; "
    "≈: 1 lies in it, so it does not say which one is faster."
)


def machine_lines(environment: Mapping[str, Any]) -> list[str]:
    """What was measured where (see environment.py)."""
    model, machine = environment["model"], environment["machine"]
    return [
        f"{program_text(environment)}, {environment['llama_cpp']}  ",
        f"model {model['name']}: {model['quant']}, {count_text(model['parameters'])} parameters, "
        f"{size_text(model['bytes'])}{_short_hash(model.get('fingerprint'))}  ",
        f"{machine['cpu']} ({machine['architecture']}), {machine['cores']} cores, "
        f"device {machine['device']}  ",
        *stamp_line(environment),
    ]


def program_text(environment: Mapping[str, Any]) -> str:
    """`orin-llm 1.2 (abc1234)`."""
    commit = f" ({environment['commit']})" if environment["commit"] else ""
    return f"orin-llm {environment['version']}{commit}"


def _short_hash(fingerprint: str | None) -> str:
    return f" ({fingerprint[:12]})" if fingerprint else ""


def stamp_line(environment: Mapping[str, Any]) -> list[str]:
    """How the machine was set; what nothing tells is left out, and all of it on a PC."""
    stamp, at_start = environment.get("stamp", {}), environment.get("at_start", {})
    pinned = stamp.get("clocks_pinned")
    texts = {
        "module": "{board} ({module})",
        "l4t": "L4T {l4t}",
        "jetpack": "JetPack {jetpack}",
        "power_mode": "{power_mode}",
        "gpu_units": "{gpu_units} TPCs",
        "gpu_cap_mhz": "GPU up to {gpu_cap_mhz:g} MHz",
        "emc_cap_mhz": "memory up to {emc_cap_mhz:g} MHz",
        "clocks_pinned": f"clocks {'pinned' if pinned else 'not pinned'}",
        "hottest_c": "{hottest_c:g} °C at the start",
    }
    known = {**stamp, **at_start}
    parts = [text.format(**known) for name, text in texts.items() if known.get(name) is not None]
    return [f"{', '.join(parts)}  "] if parts else []


def table(*heads: str, rows: Iterable[Row]) -> str:
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
    """`12`, `20.8 ± 0.6`, `31 %`; no address, list or version."""
    return cell == "" or bool(re.fullmatch(r"\d+(\.\d+)?( .*)?", cell))


def figure(spread: Spread | None, repetitions: int) -> str:
    """Mean and standard deviation; of a single repetition the value alone."""
    if spread is None:
        return ""
    digits = 1 if spread.mean < 1000 else 0
    mean = f"{spread.mean:.{digits}f}"
    return f"{mean} ± {spread.std:.{digits}f}" if repetitions > 1 else mean


def ratio(found: Ratio | None) -> str:
    """`1.234 (1.210 … 1.258)`; with a `≈` where that does not say which one is faster."""
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return number(found.mean)
    sure = "" if found.significant else " ≈"
    return f"{number(found.mean)} ({number(found.low)} … {number(found.high)}){sure}"


class Repeated(Protocol):
    """What has figures of several repetitions."""

    @property
    def figures(self) -> Mapping[str, Spread]: ...
    @property
    def outliers(self) -> Mapping[str, Sequence[int]]: ...
    @property
    def repeated(self) -> Mapping[str, Sequence[float | None]]: ...


def outlier_lines(names: Iterable[Row], results: Iterable[Repeated]) -> str:
    """Repetitions that lie apart, which all figures contain; nothing where none does.

    Args:
        names: how each result is called.
    """
    lines = [
        f"- {', '.join(where)}, {text}"
        for where, result in zip(names, results, strict=True)
        for text in _outliers(result)
    ]
    return "\n".join(["Outliers, which all figures contain:", "", *lines, ""]) if lines else ""


def _outliers(result: Repeated) -> Iterator[str]:
    """`run 3: ttft_ms 94.1 (median 51.2), …`, a text for each run in which something lies apart."""
    for run in sorted({run for runs in result.outliers.values() for run in runs}):
        apart = [
            f"{name} {number(value)} (median {number(result.figures[name].median)})"
            for name, runs in result.outliers.items()
            if run in runs and (value := result.repeated[name][run - 1]) is not None
        ]
        yield f"run {run}: {', '.join(apart)}"


def number(value: float) -> str:
    digits = 3 if value < 10 else 1 if value < 1000 else 0
    return f"{value:.{digits}f}"
