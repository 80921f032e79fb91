"""Sentences on stdout: broken between words for a person, whole for a program."""

from __future__ import annotations

import shutil
import sys
import textwrap

from orin_llm.cli.render import visible

_WHOLE_LINES = 1 << 20


def output_width() -> int:
    """Characters that a line of stdout should have at most: without bound in a file or pipe."""
    return shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else _WHOLE_LINES


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines; a word that is longer than one stays whole. At least one line."""
    lines = textwrap.wrap(visible(text), width, break_long_words=False, break_on_hyphens=False)
    return lines or [""]


def print_paragraph(text: str, label: str = "", label_cells: int = 0) -> None:
    """Print it, behind a label in a column of its own."""
    first, *more = wrapped(text, output_width() - label_cells)
    print(f"{label:<{label_cells}}{first}")
    for line in more:
        print(f"{'':<{label_cells}}{line}")
