"""Help that cuts no flag's name, however narrow the terminal is."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class FoldingCommand(TyperCommand):
    """A command whose help goes on in the next line where a name is longer than its column."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _fold_names()
        super().format_help(ctx, formatter)


def _fold_names() -> None:
    """Typer makes columns of names; what Rich cuts there it would fold if the text said so."""
    from rich.highlighter import RegexHighlighter
    from typer import rich_utils

    class Folding(RegexHighlighter):
        def highlight(self, text: Any) -> None:
            super().highlight(text)
            text.overflow = "fold"

    class Names(Folding, rich_utils.OptionHighlighter):
        pass

    class NegativeNames(Folding, rich_utils.NegativeOptionHighlighter):
        pass

    rich_utils.highlighter = Names()
    rich_utils.negative_highlighter = NegativeNames()
