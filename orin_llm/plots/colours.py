"""The colours of charts: each has a value for white ground and one for dark ground.

Charts are drawn in the first; inside of a page a chart asks the page, by a CSS variable, so that
one drawing serves both.
"""

from __future__ import annotations

import re

INK, GRID = "#24292f", "#d4d9df"

# Apart from each other for eyes that do not tell red from green.
SERIES = (
    "#2563eb", "#c2660a", "#0f8a6a", "#be185d", "#7c3aed", "#0e7f9c", "#6b7280", "#8a6d00",
)  # fmt: skip
_ON_DARK = {
    INK: "#d7dde4",
    GRID: "#3b434d",
    **dict(
        zip(
            SERIES,
            (
                "#7aa7ff", "#f2a65a", "#4fd1a5", "#f58ab5", "#b9a3ff", "#5fd0ea", "#a9b1bd",
                "#e3c65b",
            ),
            strict=True,
        )
    ),
}  # fmt: skip
_NAMES = {
    INK: "--chart-ink",
    GRID: "--chart-grid",
    **{colour: f"--chart-{number}" for number, colour in enumerate(SERIES, start=1)},
}
_KNOWN = re.compile("|".join(_NAMES))


def series_colour(number: int) -> str:
    """Of the series with this number, from 0; after the last colour comes the first again."""
    return SERIES[number % len(SERIES)]


def band_colour(number: int) -> str:
    """Of the kind of band with this number; a chart's lines do not change it."""
    return SERIES[(1 + number) % len(SERIES)]


def by_variable(svg: str) -> str:
    """The drawing with each colour asked of the page; without an answer it is as it was drawn."""
    return _KNOWN.sub(lambda found: f"var({_NAMES[found[0]]}, {found[0]})", svg)


def css_variables(*, dark: bool) -> str:
    """Declarations of all variables, for one of the two grounds."""
    return " ".join(
        f"{name}: {_ON_DARK[colour] if dark else colour};" for colour, name in _NAMES.items()
    )
