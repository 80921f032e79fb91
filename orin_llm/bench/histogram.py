"""How often values were met, in a number of bins that does not grow with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

N_BINS = 240
_LEAST_MS = 0.01  # what is faster came together: several tokens in one answer of a server


@dataclass(frozen=True)
class Histogram:
    """Counts of the values between two edges each; the last bin has its upper edge.

    Attributes:
        edges_ms: one more than `counts`, rising by equal factors, so that gaps that are ten times
            as long as most have their own bins. The first is 0 where values are below 0.01 ms.
    """

    edges_ms: tuple[float, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, values_ms: Sequence[float]) -> Histogram | None:
        """None without values."""
        if not values_ms:
            return None
        least, most = min(values_ms), max(values_ms)
        low = max(least, _LEAST_MS)
        high = most if most > low * 1.001 else low * 1.1  # all alike
        edges = np.geomspace(low, high, N_BINS + 1)
        if least < low:
            edges[0] = 0.0
        counts, _ = np.histogram(values_ms, edges)
        return cls(tuple(map(float, edges)), tuple(map(int, counts)))
