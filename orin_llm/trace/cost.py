"""What tracing costs: the same run with the sensors read and without, in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from orin_llm.bench.campaign import MakeEngine
from orin_llm.bench.ratios import Ratio, paired
from orin_llm.bench.records import Run
from orin_llm.bench.runner import EngineRunner
from orin_llm.bench.turns import alternate
from orin_llm.bench.watch import watching
from orin_llm.bench.workload import Workload
from orin_llm.engine import Engine
from orin_llm.trace.figures import figures
from orin_llm.trace.record import Plan, sized_config


@dataclass(frozen=True)
class Cost:
    """Traced over not traced, of pairs of runs next to each other; None: not measured.

    The engine keeps its records of steps in both: they are always on.
    """

    wall: Ratio | None
    ttft: Ratio | None
    tpot: Ratio | None

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def measure_cost(
    plan: Plan, repetitions: int, load: MakeEngine, say: Callable[[str], None]
) -> Cost:
    """Run the workload in turns; `plan.warmup` rounds before do not count.

    Raises:
        UsageError, OrinError: as `record`; or a request failed.
    """
    with load(plan.model, sized_config(plan)) as engine:
        workload = plan.scenario.build(engine.n_vocab, plan.seed)
        contenders = [_Traced(engine, replace(plan, readings=on)) for on in (True, False)]
        traced, plain = alternate(
            contenders,
            workload,
            plan.warmup,
            repetitions,
            lambda text: say(f"{plan.scenario.label}, {text}"),
        )
    for run in (*traced, *plain):
        run.require_all_completed()
    return cost_of(traced, plain)


def cost_of(traced: Sequence[Run], plain: Sequence[Run]) -> Cost:
    """The ratios of runs, each with the one of the same round."""
    pairs = [(figures(a, 0.0), figures(b, 0.0)) for a, b in zip(traced, plain, strict=True)]
    return Cost(
        _ratio((a.wall_ms, b.wall_ms) for a, b in pairs),
        _ratio((a.ttft_ms, b.ttft_ms) for a, b in pairs),
        _ratio((a.tpot_ms, b.tpot_ms) for a, b in pairs),
    )


class _Traced:
    """One engine, with the sensors read while it runs or without."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self._engine, self._plan = engine, plan

    @property
    def settings(self) -> dict[str, object]:
        return {"name": "traced" if self._plan.readings else "not traced"}

    def run(self, workload: Workload) -> Run:
        plan = self._plan
        with watching(plan.root, readings=plan.readings, interval_ms=plan.interval_ms) as watch:
            return EngineRunner(self._engine, watch.sampler).run(workload)


def _ratio(pairs: Iterable[tuple[float | None, float | None]]) -> Ratio | None:
    return paired([a / b for a, b in pairs if a and b])
