"""Energy from readings of power."""

from __future__ import annotations


class EnergyMeter:
    """Adds up energy by the trapezoidal rule as readings come, without keeping them.

    A time without readings is not guessed: it is missing in `joules` and `covered_ms`.
    """

    def __init__(self, max_gap_ms: float) -> None:
        """Readings further apart than `max_gap_ms` have a gap between them."""
        self._max_gap_ms = max_gap_ms
        self._last: tuple[float, float] | None = None
        self._joules = 0.0
        self.covered_ms = 0.0

    def add(self, at_ms: float, power_w: float | None) -> None:
        """One reading; None, and a time that does not lie behind the last, is none."""
        if power_w is None:
            return
        if self._last is not None:
            last_ms, last_w = self._last
            if at_ms <= last_ms:
                return
            if at_ms - last_ms <= self._max_gap_ms:
                self._joules += (power_w + last_w) / 2 * (at_ms - last_ms) / 1000
                self.covered_ms += at_ms - last_ms
        self._last = at_ms, power_w

    @property
    def joules(self) -> float | None:
        """Energy of the covered time; None if there is none."""
        return self._joules if self.covered_ms > 0 else None
