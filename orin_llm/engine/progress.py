"""How far a load has come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LoadProgress:
    """A moment of a load: bytes of weights done, of how many, after how many seconds."""

    bytes_done: int
    bytes_total: int
    elapsed_s: float

    @property
    def bytes_per_s(self) -> float:
        """The rate so far."""
        return self.bytes_done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def eta_s(self) -> float:
        """Seconds left at the rate so far; infinite before the first byte."""
        rate = self.bytes_per_s
        return (self.bytes_total - self.bytes_done) / rate if rate > 0 else float("inf")
