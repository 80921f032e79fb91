"""Markdown tables that read well as they are, and how results write numbers in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orin_llm.bench.distribution import Spread
from orin_llm.host.units import size_text
from orin_llm.models.describe import count_text

Row = list[str]


def machine_lines(environment: Mapping[str, Any]) -> list[str]:
    """What was measured where (see environment.py)."""
    model, machine = environment["model"], environment["machine"]
    program = f"orin-llm {environment['version']}"
    if environment["commit"]:
        program += f" ({environment['commit']})"
    return [
        f"{program}, {environment['llama_cpp']}  ",
        f"model {model['name']}: {model['quant']}, {count_text(model['parameters'])} parameters, "
        f"{size_text(model['bytes'])}  ",
        f"{machine['cpu']} ({machine['architecture']}), {machine['cores']} cores, "
        f"device {machine['device']}  ",
    ]


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
    return cell == "" or cell[0].isdigit()


def figure(spread: Spread | None) -> str:
    if spread is None:
        return ""
    digits = 1 if spread.mean < 1000 else 0
    return f"{spread.mean:.{digits}f} ± {spread.std:.{digits}f}"


def ratio(spread: Spread | None) -> str:
    return f"{spread.median:.3f} ({spread.min:.3f} … {spread.max:.3f})" if spread else ""


def number(value: float) -> str:
    digits = 3 if value < 10 else 1 if value < 1000 else 0
    return f"{value:.{digits}f}"
