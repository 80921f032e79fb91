"""Pictures of what the sensors said over the time of a run, with its phases behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orin_llm.bench.picture import MOST_OF_A_KIND, Picture, left_out
from orin_llm.bench.result import Result
from orin_llm.bench.timeline import Timeline
from orin_llm.plots.charts import Band, Panel, Series, timeline

# Each panel: what it is, its unit, and the sensors that it shows.
_PANELS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("power", "W", {"power_w": "power"}),
    ("load", "%", {"gpu_percent": "GPU", "emc_percent": "EMC", "cpu_percent": "CPU"}),
    ("clock", "MHz", {"gpu_mhz": "GPU", "emc_mhz": "EMC"}),
    ("traffic", "GB/s", {"bandwidth_gb_s": "traffic"}),
    ("hottest", "°C", {"hottest_c": "hottest"}),
)
_EXPECTED = {"power_w": "power", "emc_percent": "memory load (EMC)", "gpu_percent": "GPU load"}


def device_pictures(results: Sequence[Result]) -> Iterator[Picture]:
    """One for each result with readings, up to MOST_OF_A_KIND."""
    found = [(r, r.timeline) for r in results if r.timeline is not None and r.timeline.sensors]
    drawn = found[:MOST_OF_A_KIND]
    for number, (result, line) in enumerate(drawn, start=1):
        last = left_out(len(found)) if number == len(drawn) else ""
        yield _picture(f"device-{number}", result, line, last)


def _picture(name: str, result: Result, line: Timeline, more: str) -> Picture:
    seconds = [at / 1000 for at in line.at_ms]
    panels = [
        Panel(f"{next(iter(shown)) if len(shown) == 1 else what}, {unit}", list(shown.values()))
        for what, unit, sensors in _PANELS
        if (shown := _lines(sensors, seconds, line))
    ]
    bands = [Band(p.start_ms / 1000, p.end_ms / 1000, p.name) for p in line.phases]
    missing = [text for sensor, text in _EXPECTED.items() if sensor not in line.sensors]
    not_measured = f" Not measured: {', '.join(missing)}." if missing else ""
    title = f"Device: {result.label}, {result.engine['name']}"
    return Picture(
        name,
        lambda: timeline(
            panels, title=title, x_label="seconds since the first request", bands=bands
        ),
        f"The last repetition; {len(seconds)} points.{not_measured}{more}",
    )


def _lines(sensors: dict[str, str], seconds: list[float], line: Timeline) -> dict[str, Series]:
    """Those that were read, by their names."""
    return {
        text: Series(text, seconds, line.sensors[sensor])
        for sensor, text in sensors.items()
        if sensor in line.sensors
    }
