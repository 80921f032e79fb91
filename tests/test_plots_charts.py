"""Charts: what is drawn of values and of gaps, and pictures that stand in a page with others."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from processes import environment, python, run

from orin_llm.errors import OrinError, UsageError
from orin_llm.plots.charts import (
    Band,
    Bars,
    Bins,
    Mark,
    Panel,
    Series,
    bar_chart,
    histogram,
    line_chart,
    save_png,
    svg,
    timeline,
)
from orin_llm.plots.colours import GRID, INK, SERIES

HOSTILE = '<b>&amp; $x_1$ "it\'s" </svg>'


def lines(*series: Series, **more: object) -> str:
    return svg(line_chart(series, title="t", x_label="x", y_label="y", **more))


def texts(drawn: str) -> list[str]:
    """What is written in a chart; fails where it is no well-formed XML."""
    tree = ElementTree.fromstring(drawn)
    return [one.text or "" for one in tree.iter() if one.tag.endswith("}text")]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", [HOSTILE, "短い ünï", "a\nb", "_a^b", "$"])
def test_any_text_is_written_as_it_is(text: str) -> None:
    drawn = {
        "line": lines(Series(text, [1, 2], [1, 2]), marks=[Mark(1, text)]),
        "bins": svg(histogram([Bins(text, [0, 1], [3])], title=text, x_label=text, y_label=text)),
        "time": svg(
            timeline(
                [Panel(text, [Series(text, [1], [1])])],
                title=text,
                x_label=text,
                bands=[Band(1, 2, text)],
            )
        ),
        "bars": svg(bar_chart([text], [Bars(text, [1])], title=text, x_label=text)),
    }
    for name, chart in drawn.items():
        assert " ".join(text.split()) in [" ".join(found.split()) for found in texts(chart)], name


def test_a_long_name_is_shortened_so_that_the_chart_keeps_its_room() -> None:
    assert "n" * 59 + "…" in texts(lines(Series("n" * 500, [1], [1])))


def test_a_title_is_as_long_as_the_chart_is_wide() -> None:
    drawn = svg(line_chart([Series("a", [1], [1])], title="n" * 500, x_label="x", y_label="y"))
    assert "n" * 83 + "…" in texts(drawn)


def test_missing_and_infinite_values_are_gaps() -> None:
    values = [1.0, None, 3.0, math.inf, math.nan, 4.0]
    figure = line_chart([Series("a", range(6), values)], title="t", x_label="x", y_label="y")
    drawn = list(figure.axes[0].lines[0].get_ydata())
    assert [not math.isnan(value) for value in drawn] == [True, False, True, False, False, True]


def test_without_a_value_the_chart_says_so() -> None:
    nothing = {
        "lines": lines(Series("a", [1, 2], [None, None])),
        "bins": svg(histogram([], title="t", x_label="x", y_label="y")),
        "time": svg(timeline([Panel("W", [])], title="t", x_label="s")),
        "bars": svg(bar_chart(["a"], [Bars("b", [None])], title="t", x_label="x")),
    }
    for name, drawn in nothing.items():
        assert "not measured" in texts(drawn), name
    assert "not measured" not in texts(lines(Series("a", [1], [0.0])))


def test_lengths_begin_at_zero_and_losses_below_it() -> None:
    def bottom(values: list[float | None]) -> float:
        series = [Series("a", range(len(values)), values)]
        figure = line_chart(series, title="t", x_label="x", y_label="y")
        return figure.axes[0].get_ylim()[0]

    assert bottom([100.0, 101.0]) == bottom([0.0, 0.0]) == 0
    assert bottom([-1.0, 5.0]) < -1


def test_the_highest_value_is_within_the_chart_however_alike_all_are() -> None:
    for values in ([100.0, 100.1], [0.0], [1e-9, 2e-9], [5.0, None]):
        series = [Series("a", range(len(values)), values)]
        figure = line_chart(series, title="t", x_label="x", y_label="y")
        assert figure.axes[0].get_ylim()[1] > 1.02 * max(v for v in values if v is not None)


def test_doublings_are_equal_steps_and_zero_stays() -> None:
    def places(x: list[float]) -> list[float]:
        figure = line_chart(
            [Series("a", x, [1.0] * len(x))], title="t", x_label="x", y_label="y", log_x=True
        )
        axes = figure.axes[0]
        return [float(place) for place, _ in axes.transData.transform([(at, 1) for at in x])]

    for given in ([512, 1024, 2048], [0, 4096, 8192, 16384]):
        found = places(given)
        steps = [b - a for a, b in zip(found[-3:], found[-2:], strict=False)]
        assert steps[0] == pytest.approx(steps[1])
        assert found == sorted(found) and len(set(found)) == len(found)
        assert found[1] - found[0] == pytest.approx(steps[0])  # zero is one more step away
    assert {"512", "1024", "2048"} <= set(
        texts(lines(Series("a", [512, 1024, 2048], [1, 2, 3]), log_x=True))
    )


def test_a_phase_is_coloured_wherever_it_is_and_named_once() -> None:
    bands = [Band(0, 1, "prefill"), Band(1, 5, "decode"), Band(5, 6, "prefill")]
    panels = [Panel("W", [Series("p", [0, 6], [1, 2])]), Panel("%", [Series("e", [0, 6], [1, 2])])]
    figure = timeline(panels, title="t", x_label="s", bands=bands)
    assert [texts(svg(figure)).count(name) for name in ("prefill", "decode")] == [1, 1]
    for axes in figure.axes:
        assert [len(one.get_paths()) for one in axes.collections] == [2, 1]
        assert axes.get_xlim() == (0, 6)


def test_a_phase_has_the_same_colour_in_every_chart() -> None:
    def colours(n_lines: int) -> list[object]:
        series = [Series(str(n), [0, 2], [1, 2]) for n in range(n_lines)]
        bands = [Band(0, 1, "prefill"), Band(1, 2, "decode")]
        figure = timeline([Panel("W", series)], title="t", x_label="s", bands=bands)
        return [tuple(one.get_facecolor()[0]) for one in figure.axes[0].collections]

    assert colours(1) == colours(5) and len(set(colours(1))) == 2


def test_a_bar_stands_beside_its_name() -> None:
    bars = [Bars("ours", [1, 2]), Bars("stock", [None, 4])]
    axes = bar_chart(["a", "b"], bars, title="t", x_label="ms").axes[0]
    middles = {bar.get_width(): bar.get_y() + bar.get_height() / 2 for bar in axes.patches}
    ticks = axes.get_yticks()
    assert sorted(middles) == [1, 2, 4]
    assert abs(middles[1] - ticks[0]) < 0.5 and abs(middles[2] - ticks[1]) < 0.5
    assert ticks[1] == pytest.approx((middles[2] + middles[4]) / 2)


@pytest.fixture
def user_style(tmp_path: Path) -> Iterator[None]:
    """A user whose own settings would fail here, or change what is drawn."""
    import matplotlib

    with matplotlib.rc_context({"text.usetex": True, "svg.fonttype": "path", "lines.marker": "X"}):
        yield


def test_the_users_settings_of_matplotlib_change_nothing(user_style: None) -> None:
    import matplotlib

    drawn = lines(Series("a name", [1, 2], [1, 2]))
    assert "a name" in texts(drawn)
    with matplotlib.rc_context(matplotlib.rcParamsDefault):
        assert drawn == lines(Series("a name", [1, 2], [1, 2]))


def test_the_same_values_give_the_same_bytes_and_others_share_no_id() -> None:
    one, same, other = (lines(Series("a", [1, 2], [1, y])) for y in (2, 2, 3))
    assert one == same
    ids = [set(re.findall(r'\bid="([^"]+)"', drawn)) for drawn in (one, other)]
    assert ids[0] and not ids[0] & ids[1]
    for drawn, known in zip((one, other), ids, strict=True):
        references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawn))
        assert references and references <= known


def test_every_colour_is_asked_of_the_page() -> None:
    series = [Series(str(n), [1, 2], [n, n]) for n in range(10)]
    drawn = lines(*series, marks=[Mark(1.5, "here")])
    rest = re.sub(r"var\(--chart-\w+, #[0-9a-f]{6}\)", "", drawn)
    for colour in (INK, GRID, *SERIES):
        assert f", {colour})" in drawn and colour not in rest
    assert not re.findall(r"(?:fill|stroke): #(?!0{6}|f{6})[0-9a-f]{6}", rest)


def test_a_picture_file_is_a_png_on_white_that_replaces_an_older_one(tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "chart.png"
    path.write_text("old")
    save_png(line_chart([Series("a", [1], [1])], title="t", x_label="x", y_label="y"), path)
    with Image.open(path) as picture:
        assert picture.format == "PNG" and picture.width > 1000
        assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert list(tmp_path.iterdir()) == [path]


def test_a_picture_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    figure = line_chart([], title="t", x_label="x", y_label="y")
    with pytest.raises(UsageError, match="is a directory"):
        save_png(figure, tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        save_png(figure, tmp_path / "none" / "a.png")
    with pytest.raises(OrinError):
        save_png(figure, Path("/proc/a.png"))
    assert list(tmp_path.iterdir()) == []


def test_matplotlib_is_not_imported_before_something_is_drawn() -> None:
    code = (
        "import sys, orin_llm.cli.main, orin_llm.plots.charts, orin_llm.plots.page\n"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


DRAW = """
from orin_llm.plots.charts import Series, line_chart, svg
print(svg(line_chart([Series("a", [1], [1])], title="t", x_label="x", y_label="y"))[:4])
"""


def test_a_window_that_the_environment_names_is_not_needed() -> None:
    done = run(python(DRAW), env=environment(MPLBACKEND="nonsense"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "<svg\n", "")


def test_a_matplotlib_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text("raise ImportError('another numpy')")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = run(python(DRAW), env=environment(PYTHONPATH=path))
    assert "DeviceUnavailable: pictures need matplotlib" in done.stderr
    assert "another numpy" in done.stderr
