"""A whole check: what was measured where, and whether it is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orin_llm.accept.outcome import Outcome, Status, count

FAILED, UNMEASURED = 1, 4  # exit codes


@dataclass(frozen=True)
class Acceptance:
    """A check that is over.

    Attributes:
        environment: the program, the model and the machine (see bench.environment); the device is
            "" where nothing was computed.
        settings: of the engine.
        outcomes: in the order of their numbers.
        allow_unmeasured: whether what could not be measured or judged may be accepted.
        interrupted: it was ended before its end.
    """

    environment: Mapping[str, Any]
    settings: Mapping[str, Any]
    outcomes: tuple[Outcome, ...]
    allow_unmeasured: bool = False
    interrupted: bool = False

    @property
    def counts(self) -> dict[Status, int]:
        """How many indicators have each status."""
        return count(self.outcomes)

    @property
    def exit_code(self) -> int:
        """0 where every indicator passed, or some did and the rest may be unmeasured.

        1 where one failed; 4 where none did, and one could not be measured or judged.
        """
        counts = self.counts
        if counts["failed"]:
            return FAILED
        open_ones = counts["not measurable"] + counts["not judged"]
        if open_ones and not (self.allow_unmeasured and counts["passed"]):
            return UNMEASURED
        return 0

    @property
    def accepted(self) -> bool:
        """Whether the model may be delivered, as far as this check goes."""
        return self.exit_code == 0 and not self.interrupted

    def to_json(self) -> dict[str, Any]:
        """All of it but what the figures were computed from."""
        return {
            **self.environment,
            "engine": dict(self.settings),
            "accepted": self.accepted,
            "interrupted": self.interrupted,
            "allow_unmeasured": self.allow_unmeasured,
            "counts": {status.replace(" ", "_"): n for status, n in self.counts.items()},
            "indicators": [outcome.to_json() for outcome in self.outcomes],
        }
