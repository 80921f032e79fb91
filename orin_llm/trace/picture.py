"""A run as a picture: memory, tokens and sensors over time, with its phases behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from orin_llm.bench.records import Run
from orin_llm.bench.timeline import phase_spans
from orin_llm.device.reading import Reading
from orin_llm.engine import StepRecord
from orin_llm.plots.charts import Band, Panel, Series, timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
_MIB = 1 << 20
MAX_POINTS = 4000  # of a line: more than a picture has columns


def picture(run: Run, title: str) -> Figure:
    """Every panel that something was measured for; that of the steps always."""
    zero = min(
        [request.submitted_ms for request in run.requests]
        + [step.started_ms for step in run.steps[:1]],
        default=0.0,
    )
    bands = [
        Band(span.start_ms / 1e3, span.end_ms / 1e3, span.name) for span in phase_spans(run, zero)
    ]
    panels = [*_engine_panels(run.steps, zero), *_device_panels(run.readings, zero)]
    return timeline(panels, title=title, x_label="seconds", bands=bands)


def _engine_panels(steps: Sequence[StepRecord], zero_ms: float) -> Iterator[Panel]:
    shown = _thinned(steps)
    times = [
        (at - zero_ms) / 1e3
        for step in shown
        for at in (step.started_ms, step.started_ms + step.duration_ms)
    ]
    if any(step.kv_bytes_committed for step in steps):
        used = [0.0, *(step.kv_bytes_used / _MIB for step in shown)]
        committed = [step.kv_bytes_committed / _MIB for step in shown]
        committed = [committed[0], *committed]
        series = [
            Series("used pages", times, _before_and_after(used)),
            Series("committed", times, _before_and_after(committed)),
        ]
        yield Panel("KV cache, MiB", series)
    prompt = [float(step.n_prompt_tokens) for step in shown]
    decode = [float(step.n_decode_tokens) for step in shown]
    yield Panel(
        "tokens in a step",
        [
            Series("of prompts", *_while_it_lasts(times, prompt)),
            Series("decoded", *_while_it_lasts(times, decode)),
        ],
    )


def _before_and_after(values: Sequence[float]) -> list[float]:
    """For the beginning and the end of each step: what was there before it, and after it."""
    return [value for pair in pairwise(values) for value in pair]


def _while_it_lasts(
    times: Sequence[float], values: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Each value from its step's beginning to its end, and none in a pause that can be seen."""
    x: list[float] = []
    y: list[float] = []
    seen = (times[-1] - times[0]) / MAX_POINTS if times else 0.0
    for start, end, value in zip(times[::2], times[1::2], values, strict=True):
        if x and start - x[-1] > seen:
            x += [x[-1], start]
            y += [0.0, 0.0]
        x += [start, end]
        y += [value, value]
    return x, y


def _device_panels(readings: Sequence[Reading], zero_ms: float) -> Iterator[Panel]:
    shown = _thinned(readings)
    times = [(reading.at_ms - zero_ms) / 1e3 for reading in shown]
    for (title, unit), lines in _SENSORS.items():
        found = {name: [value(reading) for reading in shown] for name, value in lines.items()}
        series = [
            Series(name, times, values)
            for name, values in found.items()
            if any(value is not None for value in values)
        ]
        if series:  # one that is alone is not in the legend
            what = f"{series[0].label} {title}" if len(series) == 1 else title
            yield Panel(f"{what}, {unit}", series)


def _thinned(values: Sequence[T]) -> Sequence[T]:
    return values[:: max(1, -(-len(values) // MAX_POINTS))]


def _mib(size: int | None) -> float | None:
    return None if size is None else size / _MIB


_SENSORS: Mapping[tuple[str, str], Mapping[str, Callable[[Reading], float | None]]] = {
    ("memory", "MiB"): {
        "used": lambda reading: _mib(reading.ram_used_bytes),
        "GPU": lambda reading: _mib(reading.gpu_memory_used_bytes),
    },
    ("power", "W"): {"total": lambda reading: reading.power_w},
    ("load", "%"): {
        "GPU": lambda reading: reading.gpu_percent,
        "EMC": lambda reading: reading.emc_percent,
        "CPU": lambda reading: reading.cpu_percent,
    },
    ("traffic", "GB/s"): {"memory": lambda reading: reading.bandwidth_gb_s},
    ("clock", "MHz"): {
        "GPU": lambda reading: reading.gpu_mhz,
        "EMC": lambda reading: reading.emc_mhz,
    },
}
