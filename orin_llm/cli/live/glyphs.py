"""The characters that bars, sparklines and boxes are made of, for terminals that have fewer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.cells import cell_len

_PLAIN = str.maketrans(
    {"–": "-", "…": ".", "·": "|", "×": "x", "°": " ", "●": "*", "▸": ">", "↑": "^", "↓": "v"}
    | {"←": "<", "→": ">"}
)


@dataclass(frozen=True)
class Glyphs:
    """One set of them.

    Attributes:
        levels: of a cell, from the lowest that is not missing to the whole cell.
        parts: of the last cell of a bar, from empty to the whole cell.
        track: what of a bar is not filled.
        mark: where a limit is.
        off: a core that is switched off.
        box: corners and sides: top left, top right, bottom left, bottom right, level, upright.
        plain: whether nothing but ASCII may be written.
    """

    levels: str
    parts: str
    track: str
    mark: str
    off: str
    box: tuple[str, str, str, str, str, str]
    plain: bool

    def written(self, text: str) -> str:
        """The text as this set allows it, as wide as it was, without anything a terminal obeys."""
        if not text.isprintable():
            text = "".join(s if s.isprintable() else " " * cell_len(s) for s in text)
        if not self.plain or text.isascii():
            return text
        known = text.translate(_PLAIN)
        return "".join(sign if sign.isascii() else "?" * cell_len(sign) for sign in known)


BLOCKS = Glyphs("▁▂▃▄▅▆▇█", " ▏▎▍▌▋▊▉█", "·", "│", "·", ("╭", "╮", "╰", "╯", "─", "│"), plain=False)
ASCII = Glyphs("_.:-=+*#", " #", ".", "|", "x", ("+", "+", "+", "+", "-", "|"), plain=True)


def glyphs_for(environ: Mapping[str, str]) -> Glyphs:
    """What the terminal can show, by its locale: not what Python makes of it.

    The console of Linux reads UTF-8 but has no glyphs for parts of a cell.
    """
    if environ.get("TERM") == "linux":
        return ASCII
    set_names = (environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    name = next((name for name in set_names if name), "")
    return BLOCKS if "utf" in name.lower() else ASCII
