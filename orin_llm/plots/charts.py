"""Charts: lines, histograms, timelines and bars; as a picture in a page or in a file.

Matplotlib is imported when the first chart is drawn. Labels are any text.
"""

from __future__ import annotations

import hashlib
import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orin_llm.models.output_file import new_file
from orin_llm.plots.colours import by_variable, series_colour
from orin_llm.plots.drawing import (
    Band,
    Mark,
    Series,
    add_legend,
    draw_bands,
    draw_lines,
    draw_marks,
    drawing,
    from_zero,
    log_axis,
    new_figure,
    say_not_measured,
    scale_x,
    shortened,
    title_line,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Band", "Bars", "Bins", "Mark", "Panel", "Series", "bar_chart", "histogram", "line_chart",
    "save_png", "svg", "timeline",
]  # fmt: skip

_PNG_DPI = 150


@dataclass(frozen=True)
class Bins:
    """A histogram: `edges` in rising order, one more than `counts`."""

    label: str
    edges: Sequence[float]
    counts: Sequence[int]


@dataclass(frozen=True)
class Bars:
    """One bar for each name of the chart; None: there is none."""

    label: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Panel:
    """One of several charts over the same time; a line that is alone is not in the legend."""

    y_label: str
    series: Sequence[Series]


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    marks: Sequence[Mark] = (),
) -> Figure:
    """Points joined by lines; the y axis begins at zero where no value is negative.

    Args:
        log_x: doublings are equal steps; an x of zero stays.
    """
    with drawing():
        figure = new_figure(3.4)
        axes = figure.subplots()
        draw_lines(axes, series, markers=max((len(one.x) for one in series), default=0) <= 60)
        known = [y for one in series for y in one.known]
        if not known:
            say_not_measured(axes)
        scale_x(axes, [x for one in series for x in one.x], log=log_x)
        from_zero(axes, known)
        draw_marks(axes, marks)
        axes.set(title=title_line(title), xlabel=x_label, ylabel=y_label)
        add_legend(figure, [axes])
        return figure


def histogram(
    bins: Sequence[Bins],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    marks: Sequence[Mark] = (),
) -> Figure:
    """How often values were met, as outlines that may lie over one another.

    Args:
        log_x: equal factors are equal steps; all edges are above zero.
    """
    with drawing():
        figure = new_figure(3.0)
        axes = figure.subplots()
        for number, one in enumerate(bins):
            colour = series_colour(number)
            axes.stairs(one.counts, one.edges, label=shortened(one.label), color=colour, fill=False)
            axes.stairs(one.counts, one.edges, color=colour, fill=True, alpha=0.16)
        if not bins:
            say_not_measured(axes)
        if log_x and bins:
            log_axis(axes)
        from_zero(axes, [count for one in bins for count in one.counts])
        draw_marks(axes, marks)
        axes.set(title=title_line(title), xlabel=x_label, ylabel=y_label)
        add_legend(figure, [axes])
        return figure


def timeline(
    panels: Sequence[Panel],
    *,
    title: str,
    x_label: str,
    bands: Sequence[Band] = (),
) -> Figure:
    """Panels, one at least, below one another over one time axis, with the same bands behind.

    A label has the same colour in all of them.
    """
    with drawing():
        figure = new_figure(0.9 + 1.35 * len(panels))
        rows = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        labels = list(dict.fromkeys(one.label for panel in panels for one in panel.series))
        for axes, panel in zip(rows, panels, strict=True):
            draw_bands(axes, bands)
            draw_lines(
                axes,
                panel.series,
                markers=False,
                named=len(panel.series) > 1,
                numbers=[labels.index(one.label) for one in panel.series],
            )
            known = [y for one in panel.series for y in one.known]
            if not known:
                say_not_measured(axes)
            from_zero(axes, known)
            axes.set_ylabel(panel.y_label)
        ends = [x for panel in panels for one in panel.series for x in one.points()[0]]
        ends += [edge for band in bands for edge in (band.start, band.end)]
        if ends and min(ends) < max(ends):
            rows[-1].set_xlim(min(ends), max(ends))
        rows[0].set_title(title_line(title))
        rows[-1].set_xlabel(x_label)
        figure.align_ylabels(list(rows))
        add_legend(figure, list(rows))
        return figure


def bar_chart(names: Sequence[str], bars: Sequence[Bars], *, title: str, x_label: str) -> Figure:
    """Horizontal bars, those of one name together; the first name is on top."""
    with drawing():
        thick = 0.8 / max(len(bars), 1)
        figure = new_figure(1.0 + 0.26 * max(len(names) * max(len(bars), 1), 2))
        axes = figure.subplots()
        for number, one in enumerate(bars):
            places = [place + number * thick for place in range(len(names))]
            found = [
                (place, value)
                for place, value in zip(places, one.values, strict=True)
                if value is not None
            ]
            drawn = axes.barh(
                [place for place, _ in found],
                [value for _, value in found],
                thick,
                label=shortened(one.label),
                color=series_colour(number),
            )
            axes.bar_label(drawn, fmt="{:.4g}", padding=3, fontsize=8)
        if not any(value is not None for one in bars for value in one.values):
            say_not_measured(axes)
        middle = (len(bars) - 1) * thick / 2
        axes.set_yticks([place + middle for place in range(len(names))], map(shortened, names))
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.1)
        axes.set(title=title_line(title), xlabel=x_label)
        if len(bars) > 1:
            add_legend(figure, [axes])
        return figure


def svg(figure: Figure) -> str:
    """The chart as an `<svg>` element for a page: as wide as its place, in the page's colours.

    Its title is read to those who do not see it.
    """
    text = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with drawing():
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
        title = figure.axes[0].get_title(loc="left")
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :].strip()
    own = hashlib.sha256(drawn.encode()).hexdigest()[:8]  # other charts of the page use ids, too
    drawn = re.sub(r'(\bid="|"#|url\(#)', rf"\g<1>c{own}-", drawn)
    drawn = re.sub(r' width="[^"]*pt"| height="[^"]*pt"', "", drawn, count=2)
    label = html.escape(title, quote=True)
    return by_variable(drawn).replace(
        "<svg", f'<svg class="chart" role="img" aria-label="{label}"', 1
    )


def save_png(figure: Figure, path: Path) -> None:
    """Write the chart on white ground; a file of that name is replaced.

    Raises:
        UsageError, OrinError: as `models.output_file.new_file`.
    """
    picture = io.BytesIO()
    with drawing():
        figure.savefig(picture, format="png", dpi=_PNG_DPI, facecolor="white")
    with new_file(path, force=True) as part:
        part.write_bytes(picture.getvalue())
