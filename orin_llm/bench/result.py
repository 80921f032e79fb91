"""What was measured of one contender under one workload: the schema of every output format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from orin_llm.bench.device_use import DeviceUse, device_use
from orin_llm.bench.distribution import Distribution, Spread
from orin_llm.bench.histogram import Histogram
from orin_llm.bench.metrics import (
    JOULES,
    by_repetition,
    figures,
    kv_figures,
    latencies,
    peak_concurrency,
    speedups,
    spreads,
)
from orin_llm.bench.outliers import outliers
from orin_llm.bench.ratios import Ratio
from orin_llm.bench.records import Run
from orin_llm.bench.timeline import Timeline, timeline
from orin_llm.bench.traffic import Traffic
from orin_llm.bench.workload import Described
from orin_llm.device.modules import Module
from orin_llm.device.sampler import MIN_GAP_MS

if TYPE_CHECKING:
    from orin_llm.bench.versus import Versus

MAX_ERRORS = 3  # that are told; more are only counted


@dataclass(frozen=True)
class Result:
    """One contender under one workload, all repetitions together. docs/bench.md defines the names.

    Attributes:
        label: the workload in one short text.
        workload: its settings.
        engine: `name` and settings of the contender.
        latency: over all requests (host_ms: steps) of all repetitions; None without values.
        figures: one number of each repetition.
        kv: the same of the KV cache; empty where nothing is paged.
        speedup: how many times as fast as this one the first contender was, pair by pair; empty
            for the first.
        outliers: the repetitions, from 1, in which a figure lies apart from the others.
        device: what the runs took of the machine; None where no sensor was read.
        failures: how many requests failed, by the kind of their errors, where those have one.
        memory_allows: requests of this kind at once that the memory arithmetic allows
            (models/fit.py); None where nothing tells.
        repeated: each of `figures` in every repetition, in order; None where one does not have it.
        itl_histogram: of the gaps between tokens; None without any.
        timeline: of the last repetition; None where no sensors were read.
    """

    label: str
    workload: dict[str, object]
    engine: dict[str, object]
    repetitions: int
    warmup: int
    seed: int
    completed: int
    failed: int
    errors: tuple[str, ...]
    preemptions: int
    peak_concurrency: int
    latency: dict[str, Distribution | None]
    figures: dict[str, Spread]
    kv: dict[str, Spread]
    speedup: dict[str, Ratio]
    outliers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    device: DeviceUse | None = None
    failures: dict[str, int] = field(default_factory=dict)
    memory_allows: int | None = None
    repeated: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    itl_histogram: Histogram | None = None
    timeline: Timeline | None = None

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


class Reported(Protocol):
    """What a report is made of."""

    def to_dict(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Reported)


@dataclass(frozen=True)
class Report(Generic[R]):
    """Results of a campaign, and what was measured where (see environment.py).

    Attributes:
        earlier: another one that they are set against.
        cut_short: Ctrl-C came before all repetitions of the last workload.
    """

    environment: dict[str, Any]
    results: tuple[R, ...]
    earlier: Earlier | None = None
    cut_short: bool = False

    @classmethod
    def joined(cls, reports: Sequence[Report[R]]) -> Report[R]:
        """The results of several reports, one at least, of the same environment."""
        results = tuple(r for report in reports for r in report.results)
        return replace(reports[0], results=results)

    @property
    def versus(self) -> Versus | None:
        """What comes of the results against the earlier ones; None without those."""
        from orin_llm.bench.versus import versus

        return versus(self.earlier, self) if self.earlier else None


@dataclass(frozen=True)
class Earlier:
    """A report that was written before, and the file that has it."""

    path: Path
    report: Report[Any]


@dataclass(frozen=True)
class Conditions:
    """What all contenders of a workload had in common.

    Attributes:
        traffic: what their steps read; module: that they ran on; None where that is not known.
        max_gap_ms: readings further apart do not tell of the time between them.
    """

    scenario: Described
    chunk_size: int
    warmup: int
    seed: int
    memory_allows: int | None = None
    traffic: Traffic | None = None
    module: Module | None = None
    max_gap_ms: float = MIN_GAP_MS

    def result(
        self, engine: dict[str, object], runs: Sequence[Run], first: Sequence[Run]
    ) -> Result:
        """Sum up a contender's runs; `first` are those of the one that it is compared with.

        Raises OrinError where the workload's own figures cannot be told of these runs.
        """
        requests = [request for run in runs for request in run.requests]
        failures = [request.error for request in requests if request.error]
        mine = [self._figures(run) for run in runs]
        own = [self.scenario.figures(run, self.chunk_size) for run in runs]
        both = [{**a, **b} for a, b in zip(mine, own, strict=True)]
        repeated = by_repetition(both)
        return Result(
            label=self.scenario.label,
            workload=self.scenario.settings,
            engine=engine,
            repetitions=len(runs),
            warmup=self.warmup,
            seed=self.seed,
            completed=len(requests) - len(failures),
            failed=len(failures),
            errors=tuple(dict.fromkeys(failures))[:MAX_ERRORS],
            preemptions=sum(request.preemptions for request in requests),
            peak_concurrency=max(peak_concurrency(run.requests) for run in runs),
            latency=latencies(runs),
            figures=spreads(both),
            kv=spreads([kv_figures(run) for run in runs]),
            speedup=speedups(list(map(self._figures, first)), mine) if first is not runs else {},
            outliers=outliers(repeated),
            device=device_use(runs, self.traffic, self.module, self.max_gap_ms),
            failures=dict(Counter(r.error_kind for r in requests if r.error_kind).most_common()),
            memory_allows=self.memory_allows,
            repeated=repeated,
            itl_histogram=Histogram.of([gap for r in requests if not r.error for gap in r.itl_ms]),
            timeline=timeline(runs[-1]),
        )

    def _figures(self, run: Run) -> dict[str, float]:
        """With the energy of the whole run, where its power was read."""
        use = device_use([run], max_gap_ms=self.max_gap_ms)
        joules = use.whole.joules_per_token if use else None
        return figures(run) | ({} if joules is None else {JOULES: joules})
