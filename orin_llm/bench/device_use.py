"""What runs of a workload took of the device, by phase: readings set against tokens and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orin_llm.bench.phase_work import PhaseWork, Span, phase_work
from orin_llm.bench.records import Run
from orin_llm.bench.traffic import Traffic
from orin_llm.device.modules import Module
from orin_llm.device.phases import Activity, activity
from orin_llm.device.reading import Reading
from orin_llm.device.sampler import MIN_GAP_MS

_COVERED = 0.9  # of a phase, by readings of power: below that its energy is not told


@dataclass(frozen=True)
class PhaseUse:
    """One phase of all repetitions together.

    Attributes:
        activity: means over its time.
        tokens: see PhaseWork.
        joules_per_token: power × time / tokens; None where power was not read nearly all the time.
        read_gb_s: bytes of weights and KV cache that its steps read, by arithmetic, over its time;
            None without steps, or where experts were mixed.
        of_peak: that, of the peak at the memory's clock in the phase; None where that clock, or
            the module, is not known.
        samples: readings that were taken within the phase; with none, its means are those around.
    """

    activity: Activity
    tokens: int
    joules_per_token: float | None = None
    read_gb_s: float | None = None
    of_peak: float | None = None
    samples: int = 0


@dataclass(frozen=True)
class DeviceUse:
    """All repetitions of a contender under a workload.

    Attributes:
        throttled: what slowed the machine down at any time, in alphabetical order; empty: nothing;
            None: nothing tells.
        over_current_events: in the runs; None where they are not counted.
        hottest_c: the highest temperature of any sensor.
        emc_mhz_spread, gpu_mhz_spread: least and greatest clock during the runs.
    """

    prefill: PhaseUse
    decode: PhaseUse
    whole: PhaseUse
    throttled: tuple[str, ...] | None = None
    over_current_events: int | None = None
    hottest_c: float | None = None
    emc_mhz_spread: tuple[float, float] | None = None
    gpu_mhz_spread: tuple[float, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def device_use(
    runs: Sequence[Run],
    traffic: Traffic | None = None,
    module: Module | None = None,
    max_gap_ms: float = MIN_GAP_MS,
) -> DeviceUse | None:
    """Sum up the readings of runs that followed one another; None where there are none.

    Args:
        traffic: what the steps read.
        module: that it ran on.
        max_gap_ms: readings further apart are not believed to tell of the time between them.
    """
    readings = [reading for run in runs for reading in run.readings]
    if not readings:
        return None
    works = phase_work(runs, traffic)
    prefill, decode, whole = (_use(work, readings, module, max_gap_ms) for work in works)
    during = list(_within(readings, works[2].spans))
    return DeviceUse(
        prefill,
        decode,
        whole,
        throttled=_throttled(readings),
        over_current_events=_events(runs),
        hottest_c=max((c for r in readings if (c := r.hottest_c) is not None), default=None),
        emc_mhz_spread=_spread(reading.emc_mhz for reading in during),
        gpu_mhz_spread=_spread(reading.gpu_mhz for reading in during),
    )


def _use(
    work: PhaseWork, readings: Sequence[Reading], module: Module | None, max_gap_ms: float
) -> PhaseUse:
    found = activity(readings, work.spans, max_gap_ms)
    joules = read_gb_s = of_peak = None
    if found.energy_j is not None and found.covered_ms >= _COVERED * found.duration_ms:
        joules = found.energy_j * found.duration_ms / found.covered_ms
    if work.read_bytes is not None and found.duration_ms > 0:
        read_gb_s = work.read_bytes / found.duration_ms / 1e6
        if module is not None and found.emc_mhz:
            of_peak = read_gb_s / module.bandwidth_gb_s(found.emc_mhz)
    return PhaseUse(
        activity=found,
        tokens=work.tokens,
        joules_per_token=joules / work.tokens if joules is not None and work.tokens else None,
        read_gb_s=read_gb_s,
        of_peak=of_peak,
        samples=sum(1 for _ in _within(readings, work.spans)),
    )


def _within(readings: Iterable[Reading], spans: Iterable[Span]) -> Iterator[Reading]:
    """Those that were taken in any of the intervals; both go forward in time."""
    left = iter(spans)
    span = next(left, None)
    for reading in readings:
        while span is not None and span[1] < reading.at_ms:
            span = next(left, None)
        if span is not None and span[0] <= reading.at_ms:
            yield reading


def _throttled(readings: Iterable[Reading]) -> tuple[str, ...] | None:
    told = [reading.throttled for reading in readings if reading.throttled is not None]
    return tuple(sorted({what for found in told for what in found})) if told else None


def _events(runs: Iterable[Run]) -> int | None:
    """The counters go up as long as the machine runs."""
    told = [[r.over_current_events for r in run.readings] for run in runs]
    known = [[count for count in counts if count is not None] for counts in told]
    grown = [counts[-1] - counts[0] for counts in known if counts]
    return sum(grown) if grown else None


def _spread(values: Iterable[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None
