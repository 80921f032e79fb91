"""What a search asks of whoever measures: an engine on this machine, or a model of a board."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from orin_llm.tune.knobs import Candidate
from orin_llm.tune.measurement import Measurement


@dataclass(frozen=True)
class Effort:
    """How much is measured: whole repetitions, after a warm-up where an engine is made anew."""

    repetitions: int = 1


class Bench(Protocol):
    """Measures candidates. It may keep the engines of the last two, which come in turns."""

    def measure(self, candidate: Candidate, effort: Effort) -> Measurement:
        """Measure one candidate.

        Raises:
            OrinError: the engine cannot be made with it, or a request failed.
        """

    def settle(self) -> float:
        """Wait until the machine is as cool as it was at the start, at most some minutes; the
        seconds that it took. Called after a drift, before a measurement is repeated."""

    def now_s(self) -> float:
        """A clock for limits of time, in seconds."""
