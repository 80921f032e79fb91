"""The report as a page and as pictures: what is drawn of which results, and that it shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from bench_support import UNSTAMPED, request, step
from browser import ask

from orin_llm.bench.distribution import Spread
from orin_llm.bench.histogram import Histogram
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.picture import MOST_OF_A_KIND
from orin_llm.bench.picture_files import require_folder, write_pictures
from orin_llm.bench.pictures import pictures
from orin_llm.bench.records import Run
from orin_llm.bench.report import FORMATS
from orin_llm.bench.result import Conditions, Earlier, Report, Result
from orin_llm.bench.result_file import read_results
from orin_llm.bench.start_result import StartResult
from orin_llm.bench.streams import Streams
from orin_llm.device.reading import Reading
from orin_llm.errors import OrinError, UsageError

ENVIRONMENT: dict[str, Any] = {**UNSTAMPED, "model": {**UNSTAMPED["model"], "name": "tiny <b>"}}
OURS: dict[str, object] = {"name": "orin-llm all", "threads": 2, "chunk_size": 512}
STOCK: dict[str, object] = {"name": "stock", "threads": 2, "chunk_size": 512}


def run(streams: int, prompt: int, depth: int, answer: int, readings: Sequence[Reading]) -> Run:
    """A prompt takes a ms a token; a token 10 ms, 1 ms more for each stream and 1000 in front."""
    first = float(prompt * streams)
    gap = 10 + streams + depth / 1000
    tokens = [first + gap * n for n in range(answer)]
    requests = [request(tokens, prompt_tokens=prompt) for _ in range(streams)]
    steps = [step(1, 0, first, prompt=prompt), step(2, first, tokens[-1] - first + 1)]
    return Run(tuple(requests), tuple(steps), None, tuple(readings))


def result(
    *, streams: int = 1, prompt: int = 100, depth: int = 0, answer: int = 20,
    engine: dict[str, object] = OURS, readings: Sequence[Reading] = (),
) -> Result:  # fmt: skip
    scenario = Streams(streams, Lengths(prompt, prompt), Lengths(answer, answer), depth)
    runs = [run(streams, prompt, depth, answer, readings)] * 2
    return Conditions(scenario, 512, 1, 0, memory_allows=30).result(engine, runs, runs)


def report(*results: Any) -> Report[Any]:
    return Report(ENVIRONMENT, results)


def drawn(*results: Any) -> dict[str, Any]:
    """The figure of each picture by its name."""
    return {picture.name: picture.draw() for picture in pictures(report(*results))}


def lines(figure: Any) -> dict[str, list[tuple[float, float]]]:
    """The points of each named line of a chart."""
    return {
        str(line.get_label()): [(float(x), float(y)) for x, y in line.get_xydata()]
        for line in figure.axes[0].lines
        if not str(line.get_label()).startswith("_")
    }


READINGS = [
    Reading(at, power_w=20 + at / 10, emc_percent=80, emc_mhz=3199, gpu_percent=90)
    for at in (-10, 50, 150, 250)
]


def test_ttft_is_shown_against_the_prompt_for_each_engine() -> None:
    found = drawn(*(result(prompt=p, engine=e) for p, e in product((400, 100, 200), (OURS, STOCK))))
    points = [(100, 100), (200, 200), (400, 400)]
    assert lines(found["ttft-by-prompt-tokens"]) == {"orin-llm all": points, "stock": points}


def test_tpot_is_shown_against_the_depth_with_a_line_for_each_other_setting() -> None:
    results = [result(depth=d, prompt=p) for d, p in product((0, 4000), (100, 200))]
    found = drawn(*results)
    points = [(0, pytest.approx(11)), (4000, pytest.approx(15))]
    assert lines(found["tpot-by-depth"]) == {
        "orin-llm all, prompt_tokens 100": points,
        "orin-llm all, prompt_tokens 200": points,
    }


def test_of_many_lines_those_are_drawn_that_differ_least_and_the_caption_says_which() -> None:
    many = product((100, 200), (0, 1000, 2000), (1, 2, 3, 4, 5, 6))
    results = [result(prompt=p, depth=d, streams=s) for p, d, s in many]
    picture = pictures(report(*results))[0]
    assert picture.name == "ttft-by-prompt-tokens"
    assert picture.caption.endswith("Of 18 lines those with streams 1.")
    assert list(lines(picture.draw())) == [f"orin-llm all, depth {d}" for d in (0, 1000, 2000)]
    by_load = next(p for p in pictures(report(*results)) if p.name.startswith("throughput"))
    assert "The tables tell it of each." in by_load.caption
    assert len(lines(by_load.draw())) == 6


@pytest.mark.parametrize("setting", ["chunk_size", "page_size", "threads"])
def test_a_setting_of_the_engine_that_varies_is_an_axis(setting: str) -> None:
    found = drawn(*(result(engine={**OURS, setting: value}) for value in (1, 2, 4)))
    name = f"ttft-by-{setting.replace('_', '-')}"
    assert [x for x, _ in lines(found[name])["orin-llm all"]] == [1, 2, 4]


def test_one_point_is_no_line() -> None:
    assert [p.name for p in pictures(report(result(), result(engine=STOCK)))] == ["itl-1"]
    assert pictures(report(result(answer=1))) == []


def test_the_knee_is_marked_in_the_throughput_and_told_with_what_memory_allows() -> None:
    """n requests take 100 n + 19 (10 + n) ms: 20 n tokens over the square of that is most at 2."""
    found = {p.name: p for p in pictures(report(*(result(streams=n) for n in (1, 2, 4, 8))))}
    picture = found["throughput-by-concurrency"]
    assert "The knee is at 2 requests at once; memory allows 30" in picture.caption
    axes = picture.draw().axes[0]
    assert [text.get_text() for text in axes.texts] == ["knee"]
    (points,) = lines(picture.draw()).values()
    assert [x for x, _ in points] == [1, 2, 4, 8]
    assert "latency-by-concurrency" in found


def test_gaps_have_a_histogram_for_each_workload_with_its_engines() -> None:
    found = drawn(
        result(), result(engine=STOCK), result(prompt=200), result(prompt=200, engine=STOCK)
    )
    for name in ("itl-1", "itl-2"):
        labels = found[name].axes[0].get_legend_handles_labels()[1]
        assert labels == ["orin-llm all", "stock"]


def test_gaps_that_differ_by_factors_have_an_axis_of_factors() -> None:
    short = replace(result(), itl_histogram=Histogram.of([10.0] * 50 + [11.0]))
    long = replace(result(), itl_histogram=Histogram.of([10.0] * 50 + [300.0]))
    none = replace(result(), itl_histogram=Histogram.of([0.0] * 50 + [300.0]))
    scales = [drawn(one)["itl-1"].axes[0].get_xscale() for one in (short, long, none)]
    assert scales == ["linear", "log", "log"]
    gaps = drawn(none)["itl-1"].axes[0].patches[0].get_data()
    assert gaps.edges[0] > 0 and sum(gaps.values) == 51  # those of nothing have a place, too


def test_every_gap_is_in_the_picture_however_few_bins_it_has() -> None:
    gaps = Histogram.of([10 + n / 7 for n in range(50)])
    figure = drawn(replace(result(), itl_histogram=gaps))["itl-1"]
    assert sum(figure.axes[0].patches[0].get_data().values) == 50


def test_the_device_is_shown_over_time_with_the_phases_behind() -> None:
    (picture,) = (p for p in pictures(report(result(readings=READINGS))) if "device" in p.name)
    figure = picture.draw()
    assert [axes.get_ylabel() for axes in figure.axes] == ["power, W", "load, %", "EMC, MHz"]
    assert lines(figure) == {}  # alone in its panel: named by the axis
    assert [(x, y) for x, y in figure.axes[0].lines[0].get_xydata()] == [
        (-0.01, 19), (0.05, 25), (0.15, 35), (0.25, 45),
    ]  # fmt: skip
    for axes in figure.axes:
        assert axes.get_legend_handles_labels()[1][:2] == ["prefill", "decode"]
    assert "Not measured" not in picture.caption


def test_a_sensor_that_was_not_read_is_said_to_be_missing() -> None:
    warm = [Reading(at, cpu_percent=50) for at in (0, 100)]
    (picture,) = (p for p in pictures(report(result(readings=warm))) if "device" in p.name)
    assert "Not measured: power, memory load (EMC), GPU load." in picture.caption
    assert [axes.get_ylabel() for axes in picture.draw().axes] == ["CPU, %"]


def test_more_pictures_of_a_kind_than_anybody_looks_at_are_counted_and_not_drawn() -> None:
    many = [result(prompt=p, readings=READINGS) for p in range(10, 10 + MOST_OF_A_KIND + 3)]
    found = pictures(report(*many))
    for kind in ("itl", "device"):
        these = [picture for picture in found if picture.name.startswith(kind)]
        assert len(these) == MOST_OF_A_KIND
        assert "3 more of these are in the JSON and not drawn" in these[-1].caption


def test_starts_are_bars_of_their_parts() -> None:
    figures = {
        name: Spread(ms, ms, 0, ms, ms)
        for name, ms in (("weights_ms", 5.0), ("warmup_ms", 2.0), ("ttft_ms", 8.0))
    }
    start = StartResult("load p32 cold", {"workload": "load"}, OURS, 3, 1, 0, figures, {}, {}, {})
    axes = drawn(start)["start"].axes[0]
    assert sorted(bar.get_width() for bar in axes.patches) == [2, 5]
    assert "<h1>Benchmark of tiny &lt;b&gt;</h1>" in FORMATS["html"](report(start))


@pytest.fixture(scope="module")
def whole() -> Report[Any]:
    """Results with every picture, against an earlier report."""
    now = report(
        *(result(prompt=p, engine=e) for p, e in product((100, 200), (OURS, STOCK))),
        *(result(streams=n, readings=READINGS) for n in (2, 4, 8)),
        result(depth=4000),
    )
    machine = {**ENVIRONMENT["machine"], "power_mode": "MAXN"}
    before = Report({**ENVIRONMENT, "commit": "older", "machine": machine}, now.results)
    now = replace(now, environment={**ENVIRONMENT, "machine": {**machine, "power_mode": "30W"}})
    return replace(now, earlier=Earlier(Path("older <i>.json"), before))


@pytest.fixture(scope="module")
def page(whole: Report[Any]) -> str:
    return FORMATS["html"](whole)


def test_the_page_has_every_number_of_the_tables_and_says_what_differs(
    whole: Report[Any], page: str
) -> None:
    text = FORMATS["md"](whole)
    cells = {
        cell.strip()
        for line in text.splitlines()
        if line.startswith("| ")
        for cell in line.strip("|").split("|")
    }
    shown = set(re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", page))
    assert cells and cells <= shown
    assert "machine.power_mode MAXN → 30W" in page and 'class="warning"' in page
    assert "older &lt;i&gt;.json" in page and "<i>" not in page
    for part in ("Excluded: loading", "abc1234", "Measured on", "upstream_commit"):
        assert part in page


def test_a_report_that_was_written_as_json_makes_the_same_page(tmp_path: Path) -> None:
    made = report(result(prompt=100, readings=READINGS), result(prompt=200))
    (tmp_path / "report.json").write_text(FORMATS["json"](made))
    assert FORMATS["html"](read_results(tmp_path / "report.json")) == FORMATS["html"](made)


MEASURES = """{
  wide: document.documentElement.scrollWidth > innerWidth,
  charts: [...document.querySelectorAll('svg.chart')].map(one => [
    one.getAttribute('aria-label'), one.getBoundingClientRect().height]),
  curves: [...document.querySelectorAll('svg.chart path')].filter(
    one => one.getTotalLength() > 0).length,
  beyond: [...document.querySelectorAll('svg.chart text')].filter(one => {
    const [mine, all] = [one, one.closest('svg')].map(o => o.getBoundingClientRect());
    return mine.left < all.left - 1 || mine.right > all.right + 1
      || mine.top < all.top - 1 || mine.bottom > all.bottom + 1
  }).map(one => one.textContent),
  missing: [...document.querySelectorAll('nav a')].filter(
    one => !document.querySelector(one.getAttribute('href'))).length,
  rows: document.querySelectorAll('td').length,
  fetched: performance.getEntriesByType('resource').length,
}"""


def test_a_browser_shows_every_picture_whole_and_fetches_nothing(
    whole: Report[Any], page: str, tmp_path: Path
) -> None:
    found = ask(page, MEASURES, tmp_path)
    assert len(found["charts"]) == len(pictures(whole)) == 14
    assert all(title and height > 200 for title, height in found["charts"])
    assert found["curves"] > 100 and found["rows"] > 100
    assert not found["wide"] and found["beyond"] == [] and found["missing"] == 0
    assert found["fetched"] == 0


def test_every_picture_becomes_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "plots"
    require_folder(folder)
    made = report(result(prompt=100), result(prompt=200))
    written = write_pictures(made, folder)
    assert [path.stem for path in written] == [picture.name for picture in pictures(made)]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.iterdir())
    assert set(folder.iterdir()) == set(written)


def test_a_folder_that_cannot_be_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "below"):
        with pytest.raises(UsageError, match="no directory"):
            require_folder(path)
    with pytest.raises(OrinError, match="--plot /proc/plots"):
        require_folder(Path("/proc/plots"))


def test_lines_of_engines_with_other_settings_are_few_in_the_end() -> None:
    """The first line has no page size, by which all of the others differ."""
    engines = [STOCK, *({**STOCK, "page_size": 2**n} for n in range(MOST_OF_A_KIND + 1))]
    results = [result(prompt=p, engine=e) for p, e in product((100, 200), engines)]
    figure = drawn(*results)["ttft-by-prompt-tokens"]
    assert list(lines(figure)) == ["stock"]
