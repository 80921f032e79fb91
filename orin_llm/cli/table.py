"""Tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orin_llm.cli.render import joined, tolerate_narrow_encoding, visible

_LEAST_LAST_COLUMN = 12  # cells; a table that leaves its last column less is unreadable


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout: fitted to a terminal's width; whole lines where a program reads them."""
    tolerate_narrow_encoding(sys.stdout)
    on_terminal = sys.stdout.isatty()
    console = Console(width=None if on_terminal else 10_000, highlight=False)
    cells = [columns, *([visible(cell) for cell in row] for row in rows)]
    *widths, last = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    if sum(widths) + 2 * len(widths) + min(last, _LEAST_LAST_COLUMN) > console.width:
        return _print_stacked(console, cells)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in ("SIZE", "CONTEXT") else "left")
    for row in cells[1:]:
        table.add_row(*map(Text, row))
    if on_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for text in captured.get().splitlines():
        print(text.rstrip())


def _print_stacked(console: Console, rows: Sequence[Sequence[str]]) -> None:
    """For a narrow terminal: the first cell of each row, and the others indented under it."""
    for name, *others in rows:
        console.print(Text(name, style="bold"))
        for line in joined(others, "  ", console.width - 2):
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
