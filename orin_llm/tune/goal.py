"""What is wanted: a goal, as a cost relative to the default's, and bounds that must hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from orin_llm.errors import UsageError
from orin_llm.profiles.profile import GOALS
from orin_llm.tune.measurement import Measurement, Sample


@dataclass(frozen=True)
class Constraints:
    """Bounds; None: none.

    Attributes:
        max_ttft_ms: of the longest prompt that is measured.
        max_tpot_ms: of one stream, and of one among others where these are measured.
        max_power_w: mean of a run.
        max_perplexity_ratio: of a KV type to f16: what may be lost in quality.
    """

    max_ttft_ms: float | None = None
    max_tpot_ms: float | None = None
    max_power_w: float | None = None
    max_perplexity_ratio: float = 1.005

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{name} is {value:g}: expected a number above 0")
        if self.max_perplexity_ratio < 1:
            raise UsageError(
                f"max_perplexity_ratio is {self.max_perplexity_ratio:g}: expected 1 or more, "
                "1.005 for half a percent"
            )


@dataclass(frozen=True)
class Goal:
    """A goal by name, and its constraints."""

    name: str = "balanced"
    constraints: Constraints = field(default_factory=Constraints)

    def __post_init__(self) -> None:
        if self.name not in GOALS:
            raise UsageError(f"no goal {self.name!r}: expected {', '.join(GOALS)}")

    @property
    def needs_prefill(self) -> bool:
        """Whether TTFT is to be measured of all prompts, not only of the longest."""
        return self.name != "tpot" or self.constraints.max_ttft_ms is not None

    @property
    def needs_decode(self) -> bool:
        """Whether the speed of one stream is to be measured."""
        return (
            self.name in ("tpot", "energy", "balanced") or self.constraints.max_tpot_ms is not None
        )

    @property
    def needs_concurrent(self) -> bool:
        """Whether several streams at once are to be measured."""
        return self.name in ("throughput", "balanced")

    @property
    def needs_power(self) -> bool:
        """Whether it cannot be pursued without readings of power."""
        return self.name == "energy" or self.constraints.max_power_w is not None

    def log_cost(self, sample: Sample, default: Sample) -> float | None:
        """Natural logarithm of the cost, 0 for the default: below, the candidate is better.

        `ttft`: mean log ratio of the times over the prompt lengths; `tpot` and `energy`: of the
        time and the joules of a token; `throughput`: of the rates, the other way round; `balanced`:
        the mean of the first, the second and the fourth. None where one of the two was not read.
        """
        if self.name == "ttft":
            return _ttft(sample, default)
        if self.name == "tpot":
            return _log_ratio(sample.tpot_ms, default.tpot_ms)
        if self.name == "energy":
            return _log_ratio(sample.joules_per_token, default.joules_per_token)
        rate = _log_ratio(default.tokens_per_s, sample.tokens_per_s)
        if self.name == "throughput":
            return rate
        return _mean([_ttft(sample, default), _log_ratio(sample.tpot_ms, default.tpot_ms), rate])

    def violations(self, measurement: Measurement) -> tuple[str, ...]:
        """The bounds that do not hold, in words; one whose figure was not read is one, too."""
        bounds = self.constraints
        ttft = measurement.ttft_ms
        checks = (
            ("TTFT", bounds.max_ttft_ms, ttft[max(ttft)] if ttft else None, "ms"),
            ("TPOT", bounds.max_tpot_ms, _tpot(measurement), "ms"),
            ("power", bounds.max_power_w, measurement.power_w, "W"),
        )
        found = []
        for name, bound, value, unit in checks:
            if bound is None:
                continue
            if value is None:
                found.append(f"{name} could not be measured, at most {bound:g} {unit} are wanted")
            elif value > bound:
                found.append(f"{name} of {value:.4g} {unit} is above {bound:g} {unit}")
        return tuple(found)

    def excess(self, measurement: Measurement) -> float:
        """How far it is beyond its bounds, as the largest log ratio; 0 within all of them."""
        bounds = self.constraints
        ttft = measurement.ttft_ms
        pairs = (
            (ttft[max(ttft)] if ttft else None, bounds.max_ttft_ms),
            (_tpot(measurement), bounds.max_tpot_ms),
            (measurement.power_w, bounds.max_power_w),
        )
        beyond = (
            math.inf if value is None or value <= 0 else math.log(value / bound)
            for value, bound in pairs
            if bound is not None
        )
        return max(0.0, max(beyond, default=0.0))

    def to_json(self) -> dict[str, Any]:
        """The name, and the constraints by theirs."""
        return {"goal": self.name, **vars(self.constraints)}


def _tpot(measurement: Measurement) -> float | None:
    """The slower of one stream's and that of one among others."""
    found = (measurement.tpot_ms, measurement.concurrent_tpot_ms)
    return max((value for value in found if value is not None), default=None)


def _ttft(sample: Sample, default: Sample) -> float | None:
    lengths = sample.ttft_ms.keys() & default.ttft_ms.keys()
    return _mean([_log_ratio(sample.ttft_ms[n], default.ttft_ms[n]) for n in sorted(lengths)])


def _log_ratio(value: float | None, reference: float | None) -> float | None:
    if not value or not reference:
        return None
    return math.log(value / reference)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if values and len(known) == len(values) else None
