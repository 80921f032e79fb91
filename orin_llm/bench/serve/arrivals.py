"""When requests come: at random as from many people, or evenly."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from orin_llm.errors import UsageError

MAX_RATE_PER_S = 10_000.0


@dataclass(frozen=True)
class Arrivals:
    """A rate of requests.

    Attributes:
        rate_per_s: once it has grown to it.
        burstiness: shape of the gamma distribution of the gaps: 1 is a Poisson process, less comes
            in bursts, more is more even; None: all gaps are the same.
        ramp_s: while which the rate grows evenly from nothing.
    """

    rate_per_s: float
    burstiness: float | None = 1.0
    ramp_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.rate_per_s <= MAX_RATE_PER_S:
            raise UsageError(
                f"--rate {self.rate_per_s:g}: expected requests a second above 0, at most "
                f"{MAX_RATE_PER_S:g}; for as many as can be, leave it out and set --concurrency"
            )
        if self.burstiness is not None and not 0 < self.burstiness < math.inf:
            raise UsageError(f"--burstiness {self.burstiness:g}: expected a number above 0")

    def times_s(self, random: random.Random) -> Iterator[float]:
        """When each request is due, the first at 0, without an end.

        A renewal process of rate 1 in a time that passes as fast as the rate is high.
        """
        due = 0.0
        while True:
            yield self._at(due)
            due += 1.0 if self.burstiness is None else self._gap(random, self.burstiness)

    @staticmethod
    def _gap(random: random.Random, shape: float) -> float:
        """Gamma, with a mean of 1."""
        return random.gammavariate(shape, 1 / shape)

    def _at(self, expected: float) -> float:
        """The time at which so many requests are expected to have come."""
        in_ramp = self.rate_per_s * self.ramp_s / 2
        if expected <= in_ramp:
            return math.sqrt(2 * self.ramp_s * expected / self.rate_per_s)
        return self.ramp_s + (expected - in_ramp) / self.rate_per_s
