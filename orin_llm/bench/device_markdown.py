"""Device readings for people: Markdown tables of what each phase took of the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from orin_llm.bench.device_use import DeviceUse, PhaseUse
from orin_llm.bench.tables import Row, number, table

# What is said of columns, where they are there.
_EXPLAINED = {
    "": "Means over the phases of all repetitions.",
    "GB/s": "GB/s: what the memory moved, by its load.",
    "read GB/s": "Read GB/s: weights and KV cache that the steps read, by arithmetic.",
    "of peak %": "Of peak: the same, of what the memory can do at its clock in the phase.",
    "readings": "Readings: those within the phase; with few of them, its means are those of what "
    "lies around it.",
}
# Heads of columns, and what of a phase they show.
_PHASE: dict[str, Callable[[PhaseUse], float | None]] = {
    "CPU %": lambda use: use.activity.cpu_percent,
    "GPU %": lambda use: use.activity.gpu_percent,
    "GPU MHz": lambda use: use.activity.gpu_mhz,
    "EMC %": lambda use: use.activity.emc_percent,
    "EMC MHz": lambda use: use.activity.emc_mhz,
    "GB/s": lambda use: use.activity.bandwidth_gb_s,
    "read GB/s": lambda use: use.read_gb_s,
    "of peak %": lambda use: None if use.of_peak is None else 100 * use.of_peak,
    "W": lambda use: use.activity.power_w,
    "J/token": lambda use: use.joules_per_token,
}
_SENSORS = {
    "GPU %": "the GPU's load",
    "EMC %": "the memory's load",
    "EMC MHz": "the memory's clock",
    "W": "power",
}


def device_tables(names: Sequence[Row], uses: Sequence[DeviceUse | None]) -> str:
    """By phase, then of the whole; and what could not be measured here.

    Args:
        names: the first two cells of each row: the workload, and the engine.
        uses: of these.
    """
    known = [(name, use) for name, use in zip(names, uses, strict=True) if use is not None]
    if not known:
        return "Device readings: not measured.\n"
    parts = [_phases(known), _whole(known), _missing([use for _, use in known])]
    return "\n".join(part for part in parts if part)


def _phases(known: Sequence[tuple[Row, DeviceUse]]) -> str:
    rows = [(name, phase, use) for name, whole in known for phase, use in _worked(whole)]
    heads = [head for head, get in _PHASE.items() if any(get(use) is not None for *_, use in rows)]
    explained = " ".join(
        text for head, text in _EXPLAINED.items() if head in ("", *heads, "readings")
    )
    found = table(
        "workload",
        "engine",
        "phase",
        *heads,
        "readings",
        rows=[
            [*name, phase, *(_cell(_PHASE[head](use)) for head in heads), str(use.samples)]
            for name, phase, use in rows
        ],
    )
    return f"{explained}\n\n{found}"


def _worked(use: DeviceUse) -> Iterator[tuple[str, PhaseUse]]:
    """The phases that took any time."""
    for name in ("prefill", "decode", "whole"):
        phase: PhaseUse = getattr(use, name)
        if phase.activity.duration_ms > 0:
            yield name, phase


def _whole(known: Sequence[tuple[Row, DeviceUse]]) -> str:
    """Clocks under load, heat, and what slowed the machine down."""
    columns: dict[str, Callable[[DeviceUse], str]] = {
        "GPU MHz under load": lambda use: _spread(use.gpu_mhz_spread),
        "EMC MHz under load": lambda use: _spread(use.emc_mhz_spread),
        "hottest °C": lambda use: _cell(use.hottest_c),
        "throttled": lambda use: _throttled(use.throttled),
        "over-current": lambda use: _count(use.over_current_events),
    }
    heads = [head for head, get in columns.items() if any(get(use) for _, use in known)]
    if not heads:
        return ""
    rows = [[*name, *(columns[head](use) for head in heads)] for name, use in known]
    return table("workload", "engine", *heads, rows=rows)


def _missing(uses: Iterable[DeviceUse]) -> str:
    wholes = [use.whole for use in uses]
    missing = [
        sensor
        for head, sensor in _SENSORS.items()
        if all(_PHASE[head](whole) is None for whole in wholes)
    ]
    return f"Not measured: {', '.join(missing)}.\n" if missing else ""


def _cell(value: float | None) -> str:
    return "" if value is None else number(value)


def _spread(ends: tuple[float, float] | None) -> str:
    if ends is None:
        return ""
    least, most = (f"{mhz:.0f}" for mhz in ends)
    return most if least == most else f"{least} … {most}"


def _throttled(what: tuple[str, ...] | None) -> str:
    return "" if what is None else ", ".join(what) or "no"


def _count(events: int | None) -> str:
    return "" if events is None else str(events)
