"""The pictures of a report: which ones its results have something for, each drawn when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orin_llm.bench.device_pictures import device_pictures
from orin_llm.bench.gap_pictures import gap_pictures
from orin_llm.bench.knee import LOADS, Sweep, sweeps
from orin_llm.bench.picture import MOST_OF_A_KIND, Picture, left_out
from orin_llm.bench.result import Report, Result
from orin_llm.bench.start_result import StartResult
from orin_llm.plots.charts import Bars, Mark, Series, bar_chart, line_chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class _Axis:
    """A setting that may vary, and what is shown against it."""

    setting: str
    label: str
    figures: tuple[str, ...]
    log: bool = True


_FIGURES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT"}
_AXES = (
    _Axis("prompt_tokens", "prompt tokens", ("ttft_ms",)),
    _Axis("depth", "tokens in the KV cache before", ("tpot_ms", "ttft_ms")),
    _Axis("max_tokens", "tokens of the answer", ("tpot_ms",)),
    _Axis("chunk_size", "tokens of a chunk", ("ttft_ms", "tpot_ms")),
    _Axis("page_size", "tokens of a page", ("ttft_ms", "tpot_ms")),
    _Axis("threads", "threads", ("ttft_ms", "tpot_ms"), log=False),
)
# Settings of engines that make a line of their own; others follow from these or from the machine.
_ENGINE = ("name", "threads", "chunk_size", "page_size", "kv_type", "flash_attention", "cpus")
_KNEE = (
    "At the knee throughput over latency is greatest: behind it each per cent of throughput costs "
    "more than a per cent of latency."
)
_START_PARTS = {"weights_ms": "weights", "warmup_ms": "warm-up", "first_token_ms": "first token"}


def pictures(report: Report[Any]) -> list[Picture]:
    """In the order in which they are read; empty where nothing is worth one."""
    results = [result for result in report.results if isinstance(result, Result)]
    starts = [result for result in report.results if isinstance(result, StartResult)]
    return [
        *(found for axis in _AXES for found in _against(axis, results)),
        *(found for sweep in _by_load(sweeps(results)) for found in _load_pictures(*sweep)),
        *gap_pictures(results),
        *device_pictures(results),
        *_start_pictures(starts),
    ]


def _against(axis: _Axis, results: Sequence[Result]) -> Iterator[Picture]:
    """Nothing where no line has two points."""
    lines: dict[tuple[tuple[str, object], ...], dict[float, Result]] = {}
    for result in results:
        settings = _settings(result)
        x = settings.pop(axis.setting, None)
        if isinstance(x, (int, float)):
            lines.setdefault(tuple(settings.items()), {})[x] = result
    long_enough = [key for key, points in lines.items() if len(points) > 1]
    few, fixed = _few([dict(key) for key in long_enough])
    drawn = {key: lines[key] for key in long_enough if dict(key) in few}
    names = _line_names(few)
    only = f" Of {len(long_enough)} lines those with {', '.join(fixed)}." if fixed else ""
    for figure in axis.figures:
        series = [
            Series(name, sorted(points), [_median(points[x], figure) for x in sorted(points)])
            for name, points in zip(names, drawn.values(), strict=True)
        ]
        if any(len(one.known) > 1 for one in series):
            title = f"{_FIGURES[figure]} against {axis.label}"
            yield Picture(
                f"{figure.removesuffix('_ms')}-by-{axis.setting.replace('_', '-')}",
                _drawer(series, title, axis.label, f"{_FIGURES[figure]}, ms", log_x=axis.log),
                f"Medians of all requests.{only}",
            )


def _few(lines: list[dict[str, object]]) -> tuple[list[dict[str, object]], list[str]]:
    """MOST_OF_A_KIND lines at most: settings that vary most keep their first value. And which."""
    fixed: list[str] = []
    while len(lines) > MOST_OF_A_KIND:
        names = dict.fromkeys(name for line in lines for name in line)
        values = {name: list(dict.fromkeys(line.get(name) for line in lines)) for name in names}
        name = max(values, key=lambda one: len(values[one]))
        lines = [line for line in lines if line.get(name) == values[name][0]]
        first = values[name][0]
        fixed.append(f"no {name}" if first is None else f"{name} {first}")
    return lines, fixed


def _settings(result: Result) -> dict[str, object]:
    """What may tell two results apart. `workload` is left out: `single` is one stream."""
    workload = {k: _plain(v) for k, v in result.workload.items() if k != "workload"}
    return {**workload, **{k: _plain(result.engine[k]) for k in _ENGINE if k in result.engine}}


def _plain(value: object) -> object:
    return value if isinstance(value, (int, float, str)) or value is None else str(value)


def _line_names(lines: Sequence[dict[str, object]]) -> list[str]:
    """The engine's name, and each setting in which the lines differ."""
    varied = [
        name
        for name in dict.fromkeys(name for line in lines for name in line if name != "name")
        if len({line[name] for line in lines if line.get(name) is not None}) > 1
    ]
    return [
        ", ".join(
            [str(line.get("name", ""))]
            + [f"{name} {line[name]}" for name in varied if line.get(name) is not None]
        )
        for line in lines
    ]


def _median(result: Result, figure: str) -> float | None:
    found = result.latency.get(figure)
    return found.p50 if found else None


def _drawer(
    series: Sequence[Series],
    title: str,
    x_label: str,
    y_label: str,
    *,
    log_x: bool,
    marks: Sequence[Mark] = (),
) -> Callable[[], Figure]:
    return lambda: line_chart(
        series, title=title, x_label=x_label, y_label=y_label, log_x=log_x, marks=marks
    )


def _by_load(found: Sequence[Sweep]) -> Iterator[tuple[str, list[Sweep]]]:
    for load in LOADS:
        if same := [sweep for sweep in found if sweep.load_name == load]:
            yield load, same


def _load_pictures(load: str, found: Sequence[Sweep]) -> Iterator[Picture]:
    """Throughput with the knee, and what it costs."""
    x_label = "requests per second" if load == "rate_per_s" else "requests at once"
    what = "rate" if load == "rate_per_s" else "concurrency"
    n_all, found = len(found), found[:MOST_OF_A_KIND]
    alike = len({sweep.label for sweep in found}) == 1
    names = [sweep.engine if alike else f"{sweep.engine}, {sweep.label}" for sweep in found]
    places = [[point.load for point in sweep.points] for sweep in found]
    marks = [
        Mark(sweep.knee.point.load, "knee" if len(found) == 1 else f"knee of {name}")
        for sweep, name in zip(found, names, strict=True)
        if sweep.knee and sweep.knee.passed
    ]
    if n_all == 1:
        said = f"{found[0].text[0].upper()}{found[0].text[1:]}. {_KNEE}"
    else:
        said = f"{_KNEE} The tables tell it of each.{left_out(n_all)}"
    throughput = [
        Series(name, xs, [point.throughput_per_s for point in sweep.points])
        for sweep, name, xs in zip(found, names, places, strict=True)
    ]
    latency = [
        Series(name, xs, [point.latency_ms for point in sweep.points])
        for sweep, name, xs in zip(found, names, places, strict=True)
    ]
    yield Picture(
        f"throughput-by-{what}",
        _drawer(
            throughput, f"Throughput against {what}", x_label, "tokens of answers per second",
            log_x=True, marks=marks,
        ),
        said,
    )  # fmt: skip
    yield Picture(
        f"latency-by-{what}",
        _drawer(
            latency, f"Latency against {what}", x_label, "mean of a whole request (E2EL), ms",
            log_x=True, marks=marks,
        ),
        "From the request to its last token.",
    )  # fmt: skip


def _start_pictures(starts: Sequence[StartResult]) -> Iterator[Picture]:
    timed = [start for start in starts if "ttft_ms" in start.figures]
    if not timed:
        return
    names = [f"{start.label}, {start.engine['name']}" for start in timed]
    bars = [
        Bars(text, [s.figures[part].median if part in s.figures else None for s in timed])
        for part, text in _START_PARTS.items()
    ]
    yield Picture(
        "start",
        lambda: bar_chart(names, bars, title="From nothing to the first token", x_label="ms"),
        "Medians of new processes; together they are the TTFT.",
    )
