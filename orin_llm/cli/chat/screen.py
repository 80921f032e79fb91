"""What the chat shows besides answers: tables and texts on stdout, notices on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orin_llm.cli.render import statistics_text, visible

if TYPE_CHECKING:
    from orin_llm.engine import Result


class Screen:
    """Rich consoles of the two streams; they drop colour where it does not belong."""

    def __init__(self, *, quiet: bool) -> None:
        self._out = Console(highlight=False, markup=False, emoji=False)
        self._err = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._quiet = quiet

    def table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names and what belongs to them, in two columns that wrap."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(overflow="fold")
        grid.add_column(overflow="fold")
        for name, value in rows:
            grid.add_row(Text(name, style="bold"), Text(visible(value)))
        self._out.print(grid)

    def text(self, text: str) -> None:
        self._out.print(Text(visible(text)), soft_wrap=True)

    def notice(self, text: str) -> None:
        """Something the user should know, whatever --quiet says."""
        self._err.print(Text(visible(text), style="yellow"))

    def figures(self, result: Result) -> None:
        """The statistics of an answer, dim; nothing with --quiet."""
        if not self._quiet:
            self._err.print(Text(statistics_text(result), style="dim"), soft_wrap=True)
