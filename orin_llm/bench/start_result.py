"""What was measured of one contender's starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orin_llm.bench.distribution import Spread
from orin_llm.bench.metrics import by_repetition, speedups, spreads
from orin_llm.bench.outliers import outliers
from orin_llm.bench.ratios import Ratio
from orin_llm.bench.starts import Cache, Figures
from orin_llm.bench.workload import Scenario


@dataclass(frozen=True)
class StartResult:
    """One contender with one state of the page cache, all repetitions together.

    docs/bench.md defines the names.

    Attributes:
        label: the workload in one short text.
        workload: its settings.
        engine: `name` and settings of the contender.
        figures: one number of each repetition.
        speedup: how many times as fast as this one the first contender was, pair by pair; empty
            for the first.
        outliers: the repetitions, from 1, in which a figure lies apart from the others.
        repeated: each of `figures` in every repetition, in order; None where one does not have it.
    """

    label: str
    workload: dict[str, object]
    engine: dict[str, object]
    repetitions: int
    warmup: int
    seed: int
    figures: dict[str, Spread]
    speedup: dict[str, Ratio]
    outliers: dict[str, tuple[int, ...]]
    repeated: dict[str, tuple[float | None, ...]]

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


@dataclass(frozen=True)
class StartConditions:
    """What all contenders had in common."""

    scenario: Scenario
    cache: Cache
    warmup: int
    seed: int

    @property
    def label(self) -> str:
        """In one short text."""
        return f"{self.scenario.label} {self.cache}"

    def result(
        self, engine: dict[str, object], runs: Sequence[Figures], first: Sequence[Figures]
    ) -> StartResult:
        """Sum up a contender's runs; `first` are those of the one that it is compared with."""
        repeated = by_repetition(runs)
        return StartResult(
            label=self.label,
            workload={**self.scenario.settings, "page_cache": self.cache},
            engine=engine,
            repetitions=len(runs),
            warmup=self.warmup,
            seed=self.seed,
            figures=spreads(runs),
            speedup=speedups(first, runs) if first is not runs else {},
            outliers=outliers(repeated),
            repeated=repeated,
        )
