"""What the help key shows."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from orin_llm.cli.live.measure import OVER
from orin_llm.cli.live.text import Line, Span

_KEYS = (
    ("q, Ctrl-C", "quit"),
    ("Ctrl-Z", "back to the shell until fg"),
    ("p, Space", "pause: a replay stops; live, the view stands and recording goes on"),
    ("Tab, ↓ / ↑", "next or previous engine; with one engine ↓ and ↑ scroll"),
    ("PgUp / PgDn", "scroll where not all fits"),
    ("?", "this help, and back"),
)
_SIGNS = (
    ("–", "nothing could read it"),
    (OVER, "before a figure, and an engine of several: there is an alert"),
    ("│", "on a bar: the limit from the file of thresholds; for °C also 99, throttling"),
    ("Batch", "requests that run, of those that can run at once"),
    ("TTFT", "time to the first token: mean of the newest answers"),
    ("TPOT", "time per output token after the first: mean of the newest answers"),
    ("KV", "part of the KV cache that running requests hold"),
    ("hits", "pages that attention found in the cache"),
)


def help_lines(width: int) -> list[Line]:
    """Keys, and what the signs mean."""
    lines: list[Line] = [(Span("Keys", "title"),), *_entries(_KEYS, width), ()]
    return [*lines, (Span("Signs", "title"),), *_entries(_SIGNS, width)]


def _entries(entries: Sequence[tuple[str, str]], width: int) -> Iterator[Line]:
    for name, meaning in entries:
        head = f"  {name:<12}"
        for part in textwrap.wrap(meaning, max(width - len(head), 10)):
            yield (Span(head, "key"), Span(part))
            head = " " * len(head)
