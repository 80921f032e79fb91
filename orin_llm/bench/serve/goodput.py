"""Goodput: requests that are as fast as was promised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from orin_llm.bench.records import RequestRecord, Run
from orin_llm.errors import UsageError

BOUNDS = ("ttft", "tpot", "e2el")


@dataclass(frozen=True)
class Goodput:
    """Bounds in ms by what they bound: names of BOUNDS."""

    bounds: Mapping[str, float]

    @classmethod
    def parse(cls, text: str) -> Goodput:
        """Read `ttft:500,tpot:60`. Raises UsageError where it is something else."""
        bounds: dict[str, float] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition(":")
            try:
                bound = float(value)
            except ValueError:
                bound = math.nan
            if name not in BOUNDS or name in bounds or not 0 < bound < math.inf:
                raise UsageError(
                    f"--goodput has {part.strip()!r}: expected bounds in ms, such as "
                    f"ttft:500,tpot:60, each of {', '.join(BOUNDS)} once at most"
                )
            bounds[name] = bound
        return cls(bounds)

    def __str__(self) -> str:
        return ",".join(f"{name}:{bound:g}" for name, bound in self.bounds.items())

    def met_by(self, request: RequestRecord) -> bool:
        """Whether a request met every bound; one without a TPOT has none to meet."""
        found = {"ttft": request.ttft_ms, "tpot": request.tpot_ms, "e2el": request.e2el_ms}
        values = ((found[name], bound) for name, bound in self.bounds.items())
        return not request.error and all(v is None or v <= bound for v, bound in values)

    def figures(self, run: Run) -> dict[str, float]:
        """goodput_per_s: requests that met the bounds, over the time from the first request to the
        last end; goodput_share: of all that were sent.
        """
        if not run.requests:
            return {}
        begin = min(r.submitted_ms for r in run.requests)
        seconds = (max(r.finished_ms for r in run.requests) - begin) / 1e3
        met = sum(map(self.met_by, run.requests))
        found = {"goodput_share": met / len(run.requests)}
        if seconds > 0:
            found["goodput_per_s"] = met / seconds
        return found
