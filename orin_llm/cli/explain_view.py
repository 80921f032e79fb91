"""What `orin-llm explain` prints for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from orin_llm.cli.paragraphs import print_paragraph
from orin_llm.cli.render import tolerate_narrow_encoding, visible
from orin_llm.explain.guide import Entry
from orin_llm.explain.search import Fit

_LABEL_CELLS = 10
_MOST_OTHERS = 5


def print_fits(fits: Sequence[Fit], *, with_line: bool) -> None:
    """The best one in full, the names of others."""
    tolerate_narrow_encoding(sys.stdout)
    best, *others = fits
    if with_line:
        print_paragraph(best.line, "line", _LABEL_CELLS)
    _print_entry(best.entry)
    if others:
        print()
        _print_table("or", [fit.entry for fit in others[:_MOST_OTHERS]])


def print_names(entries: Sequence[Entry]) -> None:
    """All entries by their groups."""
    tolerate_narrow_encoding(sys.stdout)
    for number, (group, members) in enumerate(groupby(entries, key=lambda entry: entry.group)):
        if number:
            print()
        _print_heading(group)
        for entry in members:
            print(f"  {entry.name}")
    print()
    print("orin-llm explain NAME, or any words or error: what to look for, and the fix")


def _print_entry(entry: Entry) -> None:
    _print_heading(entry.title)
    for label in ("symptom", "log", "trace", "fix"):
        print_paragraph(getattr(entry, label), label, _LABEL_CELLS)
    if entry.checks:
        print_paragraph(", ".join(entry.checks), "doctor", _LABEL_CELLS)
    for number, link in enumerate(entry.links):
        print_paragraph(link, "" if number else "links", _LABEL_CELLS)


def _print_table(label: str, entries: Sequence[Entry]) -> None:
    for number, entry in enumerate(entries):
        print_paragraph(f"orin-llm explain {entry.name}", "" if number else label, _LABEL_CELLS)


def _print_heading(text: str) -> None:
    Console(highlight=False).print(Text(visible(text), style="bold"), soft_wrap=True)
