"""The machine's figures: load, clocks, memory, power, temperatures."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from orin_llm.cli.live.charts import Mark, sparkline
from orin_llm.cli.live.glyphs import Glyphs
from orin_llm.cli.live.measure import NEARLY, Measure, phrases, tone_of
from orin_llm.cli.live.text import Line, Span, Tone
from orin_llm.cli.numbers import MISSING, limit, sizes, tenths, whole
from orin_llm.device.modules import THROTTLING_C
from orin_llm.device.reading import Core, Reading
from orin_llm.monitor.snapshot import Subject
from orin_llm.monitor.state import Alert, State
from orin_llm.monitor.thresholds import Threshold, Thresholds

_HOTTEST_SHOWN_C = 110.0
_BEYOND = 1.25  # of a limit: where its bar ends
# What a Jetson has in any case. A PC has what was read once.
_OF_A_JETSON = frozenset({"gpu", "emc", "power", "temperature"})


def machine_values(reading: Reading) -> dict[str, float | None]:
    """What is remembered of a reading: parts of a whole, watts and degrees."""
    return {
        "gpu": _part(reading.gpu_percent),
        "emc": _part(reading.emc_percent),
        "cpu": _part(reading.cpu_percent),
        "power": reading.power_w,
        "temperature": reading.hottest_c,
        "memory": _ratio(reading.ram_used_bytes, reading.ram_total_bytes),
        "vram": _ratio(reading.gpu_memory_used_bytes, reading.gpu_memory_total_bytes),
    }


def machine_measures(
    state: State, subject: Subject, thresholds: Thresholds, seen: Collection[str], glyphs: Glyphs
) -> list[Measure]:
    """Those that this machine has. `seen` are the keys of what was ever read."""
    reading = state.snapshot.reading
    alerts = [alert for alert in state.alerts if not alert.subject]
    values = machine_values(reading)
    measures = [
        _load("gpu", "GPU", values, phrases(_clock(reading.gpu_mhz))),
        _load("emc", "EMC", values, _emc_phrases(reading, subject, "emc" in seen)),
        _power(reading, alerts, subject, thresholds.power_w),
        _temperature(reading, alerts, thresholds.temperature_c, subject.is_jetson),
        _memory(reading, alerts, values, thresholds.memory_used),
        _vram(reading, values),
        _load("cpu", "CPU", values, _core_phrases(reading.cores, glyphs), rank=2),
    ]
    always = _OF_A_JETSON if subject.is_jetson else frozenset()
    return [
        measure
        for measure in measures
        if measure.key in seen or measure.key in always or measure.key in ("cpu", "memory")
    ]


def machine_notes(state: State) -> list[tuple[int, Line]]:
    """What slows the machine down, each line with its rank; not what an alert already says."""
    reading = state.snapshot.reading
    if reading.throttled:
        if any(alert.rule == "throttled" for alert in state.alerts):
            return []
        return [(0, (Span(f" THROTTLED: {', '.join(reading.throttled)} ", "alarm"),))]
    calm = ["not throttled"] if reading.throttled == () else []
    if reading.over_current_events is not None:
        calm.append(f"over-current events since the start: {reading.over_current_events}")
    return [(4, (Span(" · ".join(calm), "dim"),))] if calm else []


def _load(
    key: str, label: str, values: Mapping[str, float | None], more: tuple[Span, ...], rank: int = 0
) -> Measure:
    part = values[key]
    percent = None if part is None else 100 * part
    return Measure(key, label, whole(percent, "%"), part, phrases=more, rank=rank)


def _emc_phrases(reading: Reading, subject: Subject, was_read: bool) -> tuple[Span, ...]:
    peak = subject.peak_bandwidth_gb_s
    traffic = "" if reading.bandwidth_gb_s is None else f"{reading.bandwidth_gb_s:.0f}"
    if traffic:
        traffic += " GB/s" if peak is None else f" of {peak:.0f} GB/s"
    hint = "" if was_read else "needs root or jtop"
    return phrases(traffic, _clock(reading.emc_mhz), hint)


def _power(
    reading: Reading, alerts: list[Alert], subject: Subject, threshold: Threshold
) -> Measure:
    bound = threshold.above if threshold.enabled else subject.budget_w
    whole_bar = bound * _BEYOND if bound else None
    power = reading.power_w
    if subject.budget_w is not None:
        said = f"of {limit(subject.budget_w, 'W')}"
    else:
        said = f"limit {limit(bound, 'W')}" if bound else ""
    return Measure(
        "power",
        "Power",
        tenths(power, "W"),
        power / whole_bar if power is not None and whole_bar else None,
        top=whole_bar,
        has_bar=whole_bar is not None,
        marks=(Mark(1 / _BEYOND, "warn"),) if bound else (),
        phrases=phrases(said, *(_rail(name, watts) for name, watts in reading.rails_w.items())),
        tone=tone_of("power_w", alerts, power, bound),
    )


def _rail(name: str, watts: float) -> str:
    short = name.removeprefix("VDD_").removeprefix("VIN_")
    return f"{short} {watts:.1f} W"


def _temperature(
    reading: Reading, alerts: list[Alert], threshold: Threshold, is_jetson: bool
) -> Measure:
    hottest = reading.hottest_c
    bound = threshold.above if threshold.enabled else None
    marks = [Mark(bound / _HOTTEST_SHOWN_C, "warn")] if bound else []
    if is_jetson:
        marks.append(Mark(THROTTLING_C / _HOTTEST_SHOWN_C, "bad"))
    falling = sorted(reading.temperatures_c.items(), key=lambda entry: -entry[1])
    others = [f"{name} {degrees:.1f}" for name, degrees in falling[1:]]
    tone = tone_of("temperature_c", alerts, hottest, bound)
    if is_jetson and hottest is not None and hottest >= THROTTLING_C:
        tone = "bad"
    return Measure(
        "temperature",
        "Temp",
        tenths(hottest, "°C"),
        None if hottest is None else max(hottest, 0) / _HOTTEST_SHOWN_C,
        top=_HOTTEST_SHOWN_C,
        marks=tuple(marks),
        phrases=phrases(
            falling[0][0] if falling else "",
            f"limit {limit(bound, '°C')}" if bound else "",
            *others,
        ),
        tone=tone,
    )


def _memory(
    reading: Reading,
    alerts: list[Alert],
    values: Mapping[str, float | None],
    threshold: Threshold,
) -> Measure:
    bound = threshold.above if threshold.enabled else None
    used, total = reading.ram_used_bytes, reading.ram_total_bytes
    swap, swap_total = reading.swap_used_bytes, reading.swap_total_bytes
    shared = None if reading.gpu_memory_total_bytes else reading.gpu_memory_used_bytes
    block, blocks = reading.largest_free_block_bytes, reading.largest_free_blocks
    return Measure(
        "memory",
        "Memory",
        _percent(values["memory"]),
        values["memory"],
        marks=(Mark(bound, "warn"),) if bound else (),
        phrases=phrases(
            "" if used is None and total is None else sizes(used, total),
            "" if shared is None else f"GPU {sizes(shared, None)}",
            ""
            if swap is None
            else "no swap"
            if swap_total == 0
            else f"swap {sizes(swap, swap_total)}",
            "" if block is None else f"largest free {blocks or MISSING} × {sizes(block, None)}",
        ),
        tone=tone_of("memory_used", alerts, values["memory"], bound),
    )


def _vram(reading: Reading, values: Mapping[str, float | None]) -> Measure:
    used, total = reading.gpu_memory_used_bytes, reading.gpu_memory_total_bytes
    return Measure(
        "vram",
        "GPU mem",
        _percent(values["vram"]),
        values["vram"],
        phrases=phrases("" if used is None and total is None else sizes(used, total)),
        tone=_fill_tone(values["vram"]),
        rank=1,
    )


def _core_phrases(cores: tuple[Core, ...], glyphs: Glyphs) -> tuple[Span, ...]:
    if not cores:
        return ()
    online = [core for core in cores if core.online]
    clocks = [core.mhz for core in online if core.mhz is not None]
    count = f"{len(online)} of {len(cores)}" if len(online) < len(cores) else f"{len(cores)}"
    return phrases(
        f"{count} cores",
        _clock(max(clocks, default=None)),
        _loads(cores, glyphs),
    )


def _loads(cores: tuple[Core, ...], glyphs: Glyphs) -> str:
    """A cell for each core, as high as its load; one that is off has a sign of its own."""
    percents = [core.percent if core.online else None for core in cores]
    (span,) = sparkline(percents, 100.0, len(cores), "dim", glyphs)
    return span.text.replace(" ", glyphs.off)


def _fill_tone(part: float | None) -> Tone:
    return "warn" if part is not None and part >= NEARLY else "good"


def _part(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _ratio(used: float | None, total: float | None) -> float | None:
    return None if used is None or not total else used / total


def _percent(part: float | None) -> str:
    return whole(None if part is None else 100 * part, "%")


def _clock(mhz: float | None) -> str:
    return "" if mhz is None else f"{mhz:.0f} MHz"
