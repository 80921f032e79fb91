"""What all charts have in common: the style, scales that start at zero, legends that fit."""

from __future__ import annotations

import logging
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unicodedata import category

from orin_llm.errors import DeviceUnavailable
from orin_llm.plots.colours import GRID, INK, SERIES, band_colour, series_colour

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 8.6
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-4, 7),
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "text.parse_math": False,  # names hold dollars and underscores of their own
    "svg.fonttype": "none",  # text stays text: found, copied, read aloud
    "svg.hashsalt": "orin-llm",  # the same figures give the same bytes
}
_MAX_TEXT = 60
_MAX_TITLE = 84  # of usual letters: the width of a picture
_MAX_TICKS = 12
_FINE_STEPS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)  # of a decade


def require_drawing() -> None:
    """Import matplotlib: asked before long work that pictures are made of.

    Raises:
        DeviceUnavailable: that fails.
    """
    if "matplotlib" in sys.modules:
        return
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # tells that it lists the fonts
    named = os.environ.get("MPLBACKEND")
    os.environ["MPLBACKEND"] = "agg"  # files need no window, and the one that is named may fail
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise DeviceUnavailable(
            f"pictures need matplotlib, which cannot be imported: {error}: install it again "
            "(pip install --force-reinstall matplotlib)"
        ) from error
    finally:
        del os.environ["MPLBACKEND"]
        if named is not None:
            os.environ["MPLBACKEND"] = named


@contextmanager
def drawing() -> Iterator[None]:
    """Matplotlib in our style, whatever the user's own settings are, and quiet on stderr."""
    require_drawing()
    from matplotlib import style

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a browser has signs that this font lacks
        with style.context(["default", _STYLE]):
            yield


@dataclass(frozen=True)
class Series:
    """One line. A value that is None or not finite is a gap."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]

    def points(self) -> tuple[list[float], list[float]]:
        """x and y for matplotlib; gaps are NaN."""
        pairs = [(x, y) for x, y in zip(self.x, self.y, strict=True) if math.isfinite(x)]
        return [x for x, _ in pairs], [
            math.nan if y is None or not math.isfinite(y) else y for _, y in pairs
        ]

    @property
    def known(self) -> list[float]:
        """The values that there are."""
        return [y for y in self.points()[1] if not math.isnan(y)]


@dataclass(frozen=True)
class Band:
    """A part of the x axis that is coloured, such as a phase; one colour for each label."""

    start: float
    end: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A line across the chart at one x, with its text."""

    x: float
    label: str


def new_figure(height_in: float) -> Figure:
    """An empty figure that lays itself out."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH_IN, height_in), layout="constrained")


def title_line(text: str) -> str:
    """A title of one line, no wider than the picture."""
    return shortened(text, _MAX_TITLE)


def shortened(text: str, most: int = _MAX_TEXT) -> str:
    """A text of one line that leaves room for the chart; `?` for what cannot be drawn.

    That is a terminal's control, and the part of a file's name that is no text.
    """
    signs = " ".join(text.split())
    line = "".join("?" if category(sign) in ("Cc", "Cs") else sign for sign in signs)
    return line if len(line) <= most else line[: most - 1] + "…"


def draw_lines(
    axes: Axes,
    series: Sequence[Series],
    *,
    markers: bool,
    named: bool = True,
    numbers: Sequence[int] | None = None,
) -> None:
    """All of the lines, in the legend if `named`; those after the last colour are dashed.

    Args:
        numbers: of their colours; else they are counted from 0.
    """
    for number, one in zip(numbers or range(len(series)), series, strict=True):
        axes.plot(
            *one.points(),
            label=shortened(one.label) if named else None,
            color=series_colour(number),
            linestyle="-" if number < len(SERIES) else "--",
            marker="o" if markers else None,
        )


def draw_bands(axes: Axes, bands: Sequence[Band]) -> None:
    """Behind everything; each label is in the legend once."""
    labels = list(dict.fromkeys(band.label for band in bands))
    for label in labels:
        ranges = [(b.start, b.end - b.start) for b in bands if b.label == label]
        axes.broken_barh(
            ranges,
            (0, 1),
            transform=axes.get_xaxis_transform(),
            color=band_colour(labels.index(label)),
            alpha=0.16,
            linewidth=0,
            zorder=0,
            label=shortened(label),
        )


def draw_marks(axes: Axes, marks: Sequence[Mark]) -> None:
    """Dashed lines with their texts at the top, one below the other."""
    for number, mark in enumerate(marks):
        axes.axvline(mark.x, color=INK, linewidth=0.9, linestyle=":")
        axes.annotate(
            shortened(mark.label),
            (mark.x, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(3, -3 - 11 * number),
            textcoords="offset points",
            verticalalignment="top",
            fontsize=8,
        )


def from_zero(axes: Axes, values: Sequence[float]) -> None:
    """Begin the y axis at zero, so that lengths compare as values do; if none is negative."""
    if values and min(values) >= 0:
        axes.set_ylim(0, 1.06 * max(values) or 1)


def scale_x(axes: Axes, places: Sequence[float], *, log: bool) -> None:
    """Doublings as equal steps if `log`; zero stays on the axis. Few places are named exactly."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    wanted = sorted({x for x in places if math.isfinite(x)})
    if not log or not wanted or wanted[-1] <= 0:
        return
    least = min(x for x in wanted if x > 0)
    if wanted[0] > 0:
        axes.set_xscale("log", base=2)
    else:
        axes.set_xscale("symlog", base=2, linthresh=least, linscale=0.5)
    if len(wanted) <= _MAX_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(wanted))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def log_axis(axes: Axes) -> None:
    """Equal factors as equal steps on the x axis, with numbers as people write them."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    decades = math.log10(high / low)
    steps = (1.0,) if decades > 4 else (1.0, 2.0, 5.0) if decades > 1.3 else _FINE_STEPS
    axes.xaxis.set_major_locator(LogLocator(subs=steps, numticks=100))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def say_not_measured(axes: Axes) -> None:
    """In the place of lines that there are not, and of the values of an axis that has none."""
    axes.set_yticks([])
    axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", va="center")


def add_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """Below the chart, as many columns as have room; the figure grows by its rows."""
    entries: dict[str, Artist] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    columns = max(1, min(len(entries), 100 // (max(map(len, entries)) + 8)))
    rows = math.ceil(len(entries) / columns)
    figure.set_figheight(figure.get_figheight() + 0.2 * rows)
    figure.legend(
        handles=list(entries.values()), loc="outside lower center", ncols=columns, fontsize=8
    )
