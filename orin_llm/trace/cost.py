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

    Attributes:
        interrupted: Ctrl-C ended it before there were as many pairs as asked for.
    """

    wall: Ratio | None
    ttft: Ratio | None
    tpot: Ratio | None
    interrupted: bool = False

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        ratios = {"wall": self.wall, "ttft": self.ttft, "tpot": self.tpot}
        return {
            "traced_over_not": {
                name: None if ratio is None else asdict(ratio) for name, ratio in ratios.items()
            },
            "interrupted": self.interrupted,
        }


def measure_cost(
    plan: Plan, repetitions: int, load: MakeEngine, say: Callable[[str], None]
) -> Cost:
    """Run the workload in turns; `plan.warmup` rounds before do not count.

    After Ctrl-C it is the cost of the pairs that there are.

    Raises:
        UsageError, OrinError: as `record`; or a request failed.
    """
    interrupted = False
    with load(plan.model, sized_config(plan)) as engine:
        workload = plan.scenario.build(engine.n_vocab, plan.seed)
        traced, plain = (_Traced(engine, replace(plan, readings=on)) for on in (True, False))
        try:
            alternate(
                [traced, plain],
                workload,
                plan.warmup,
                repetitions,
                lambda text: say(f"{plan.scenario.label}, {text}"),
            )
        except KeyboardInterrupt:
            interrupted = True
    for run in (*traced.runs, *plain.runs):
        run.require_all_completed()
    pairs = list(zip(traced.runs, plain.runs, strict=False))[plan.warmup :]
    if interrupted and not pairs:
        raise KeyboardInterrupt
    return replace(cost_of(*zip(*pairs, strict=True)), interrupted=interrupted)


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
        self.runs: list[Run] = []

    @property
    def settings(self) -> dict[str, object]:
        return {"name": "traced" if self._plan.readings else "not traced"}

    def run(self, workload: Workload) -> Run:
        plan = self._plan
        with watching(plan.root, readings=plan.readings, interval_ms=plan.interval_ms) as watch:
            run = EngineRunner(self._engine, watch.sampler).run(workload)
        self.runs.append(run)
        return run


def _ratio(pairs: Iterable[tuple[float | None, float | None]]) -> Ratio | None:
    return paired([a / b for a, b in pairs if a and b])
