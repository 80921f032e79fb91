"""What the device did while the engine worked: readings aligned to intervals, such as its steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from orin_llm.device.curve import Area, Curve
from orin_llm.device.reading import Reading

if TYPE_CHECKING:
    from orin_llm.engine.step_record import StepRecord

_MEANS = (
    "cpu_percent", "gpu_percent", "gpu_mhz", "emc_percent", "emc_mhz", "bandwidth_gb_s", "power_w",
)  # fmt: skip


@dataclass(frozen=True)
class Activity:
    """Means over intervals, weighted by time; None where no reading covers any of them.

    Attributes:
        duration_ms: of the intervals together.
        covered_ms: of them, between readings of power that are close enough to be believed.
        energy_j: of the covered time.
    """

    duration_ms: float
    covered_ms: float
    cpu_percent: float | None
    gpu_percent: float | None
    gpu_mhz: float | None
    emc_percent: float | None
    emc_mhz: float | None
    bandwidth_gb_s: float | None
    power_w: float | None
    energy_j: float | None

    def text(self) -> str:
        """`92 % GPU, EMC 3199 MHz, 171 GB/s, 31.0 W`: what is known of it."""
        parts = (
            (self.gpu_percent, "{:.0f} % GPU"),
            (self.emc_mhz, "EMC {:.0f} MHz"),
            (self.bandwidth_gb_s, "{:.0f} GB/s"),
            (self.power_w, "{:.1f} W"),
        )
        known = [form.format(value) for value, form in parts if value is not None]
        return ", ".join(known) or "no readings"

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True)
class Phases:
    """Activity in the engine's two kinds of step."""

    prefill: Activity
    decode: Activity


def activity(
    readings: Sequence[Reading], intervals: Iterable[tuple[float, float]], max_gap_ms: float
) -> Activity:
    """What the device did in `intervals`, (start, end) in ms of the clock of the readings.

    Between two readings a sensor is taken to go straight from one value to the next, so that steps
    shorter than the time between readings have a value too; not if those are more than
    `max_gap_ms` apart.
    """
    spans = list(intervals)
    sums = {name: _sum(_curve(readings, name, max_gap_ms), spans) for name in _MEANS}
    means = {
        name: total.area / total.covered_ms if total.covered_ms > 0 else None
        for name, total in sums.items()
    }
    power = sums["power_w"]
    return Activity(
        duration_ms=sum(end - start for start, end in spans),
        covered_ms=power.covered_ms,
        energy_j=power.area / 1000 if power.covered_ms > 0 else None,
        **means,
    )


def step_phases(
    readings: Sequence[Reading], steps: Iterable[StepRecord], max_gap_ms: float
) -> Phases:
    """What the device did in the engine's steps of prefill, and in those of decode."""
    prefill: list[tuple[float, float]] = []
    decode: list[tuple[float, float]] = []
    for step in steps:
        kind = prefill if step.n_prompt_tokens else decode
        kind.append((step.started_ms, step.started_ms + step.duration_ms))
    return Phases(activity(readings, prefill, max_gap_ms), activity(readings, decode, max_gap_ms))


def _curve(readings: Sequence[Reading], name: str, max_gap_ms: float) -> Curve:
    return Curve(((reading.at_ms, getattr(reading, name)) for reading in readings), max_gap_ms)


def _sum(curve: Curve, spans: Iterable[tuple[float, float]]) -> Area:
    parts = [curve.integrate(start, end) for start, end in spans]
    return Area(sum(part.area for part in parts), sum(part.covered_ms for part in parts))
