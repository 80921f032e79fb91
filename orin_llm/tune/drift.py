"""Whether the machine is still the one that the search began on: heat, throttling, clocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from orin_llm.bench.outliers import MAD_TO_DEVIATION
from orin_llm.device.modules import THROTTLING_C
from orin_llm.tune.measurement import Load, Measurement

NEAR_THROTTLING_C = THROTTLING_C - 3
CLOCK_MOVES = 0.03  # of a clock under load
TIME_MOVES = 0.06  # of the default's cost, at least
DEVIATIONS = 4.0


class Drift:
    """What the default showed at the beginning, to compare later measurements with."""

    def __init__(self) -> None:
        self._first: Measurement | None = None
        self._changes: list[float] = []

    def begin(self, measurement: Measurement) -> None:
        """Take the default's conditions for those that are to stay."""
        self._first = measurement

    def of_conditions(self, measurement: Measurement) -> str:
        """What slowed the machine down while something was measured; "" for nothing known.

        Of any candidate: what it does to clocks by its own load is none.
        """
        if measurement.throttled:
            return f"the machine was throttled ({', '.join(measurement.throttled)})"
        hottest = measurement.hottest_c
        if hottest is not None and hottest >= NEAR_THROTTLING_C:
            return f"{hottest:.0f} °C is near the {THROTTLING_C:.0f} °C at which clocks are lowered"
        return ""

    def of_clocks(self, default: Measurement) -> str:
        """Which clock the default no longer has; "" for none."""
        if self._first is None:
            return ""
        for phase in ("prefill", "decode"):
            before: Load = getattr(self._first, phase)
            now: Load = getattr(default, phase)
            for name, what in (("gpu_mhz", "GPU"), ("emc_mhz", "EMC")):
                old, new = getattr(before, name), getattr(now, name)
                if old and new and abs(new / old - 1) > CLOCK_MOVES:
                    return f"the {what} ran at {new:.0f} MHz in {phase}, at {old:.0f} MHz before"
        return ""

    def of_time(self, log_change: float) -> str:
        """Whether the default became slower or faster from one turn to the next by more than it
        mostly does; `log_change` of its cost. "" where it did not."""
        changes = self._changes
        spread = MAD_TO_DEVIATION * median(map(abs, changes)) if len(changes) >= 4 else 0.0
        limit = max(TIME_MOVES, DEVIATIONS * spread)
        changes.append(log_change)
        if abs(log_change) <= limit:
            return ""
        percent = 100 * (math.exp(log_change) - 1)
        return f"the default's own time changed by {percent:+.0f} % meanwhile"


def noise(log_values: Sequence[float]) -> float:
    """The standard deviation of one repetition, robustly, from the default's in order: slow changes
    are left out. 0 with fewer than three."""
    steps = [abs(b - a) for a, b in pairwise(log_values)]
    return MAD_TO_DEVIATION * median(steps) / math.sqrt(2) if len(steps) >= 2 else 0.0
