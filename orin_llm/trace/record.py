"""Runs one workload on one engine to write down what happens, moment by moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_llm import _native
from orin_llm.bench.campaign import Campaign, MakeEngine, sized_configs
from orin_llm.bench.environment import environment
from orin_llm.bench.observer import Observer
from orin_llm.bench.records import Run
from orin_llm.bench.room import require_full_chunks
from orin_llm.bench.runner import EngineRunner
from orin_llm.bench.watch import INTERVAL_MS, watching
from orin_llm.bench.workload import Scenario, Workload
from orin_llm.device.sampler import Sampler
from orin_llm.engine import Engine, EngineConfig
from orin_llm.errors import UsageError

CAPTURE_RANGE = "orin-llm-trace"  # what a profiler is told to wait for


@dataclass(frozen=True)
class Plan:
    """What is traced.

    Attributes:
        model: a GGUF file.
        warmup: runs before the one that is traced.
        seed: of random prompts and lengths.
        readings: whether the sensors are read, every `interval_ms`.
        root: stands for `/`, of the sensors.
    """

    model: Path
    config: EngineConfig
    scenario: Scenario
    warmup: int = 1
    seed: int = 0
    readings: bool = True
    interval_ms: float = INTERVAL_MS
    root: Path = Path("/")


@dataclass(frozen=True)
class Recorded:
    """One run, and on what it was.

    Attributes:
        where: see bench.environment; settings: of the engine.
        interrupted: Ctrl-C ended it; requests are missing then, and steps beyond the last 4096.
    """

    run: Run
    label: str
    workload: dict[str, object]
    settings: dict[str, object]
    where: dict[str, Any]
    max_gap_ms: float
    interrupted: bool = False


def record(plan: Plan, load: MakeEngine, say: Callable[[str], None]) -> Recorded:
    """Run the workload, after runs that warm up, and give all that was seen of the last.

    Args:
        load: makes an engine.
        say: told before each run what it is.

    Raises:
        UsageError: a request has no room, or a setting cannot be.
        OrinError: the engine cannot be made.
    """
    scenario = plan.scenario
    config = sized_config(plan)
    with (
        watching(plan.root, readings=plan.readings, interval_ms=plan.interval_ms) as watch,
        load(plan.model, config) as engine,
    ):
        require_full_chunks((scenario,), engine.chunk_size)
        runner = EngineRunner(engine, watch.sampler)
        device = engine.backend["device"]
        where = environment(engine.model_path, engine.header, device, watch.stamp, watch.at_start)
        workload = scenario.build(engine.n_vocab, plan.seed)
        for number in range(plan.warmup):
            say(f"{scenario.label}, warm-up {number + 1}/{plan.warmup}")
            runner.run(workload)
        say(f"{scenario.label}, traced")
        with capture_range():
            run, interrupted = _run(engine, watch.sampler, workload)
        return Recorded(
            run, scenario.label, scenario.settings, runner.settings, where, watch.max_gap_ms,
            interrupted,
        )  # fmt: skip


def sized_config(plan: Plan) -> EngineConfig:
    """The configuration with room for the workload; UsageError where that cannot be."""
    campaign = Campaign(
        plan.model,
        (plan.config,),
        (plan.scenario,),
        repetitions=1,
        warmup=plan.warmup,
        seed=plan.seed,
    )
    return sized_configs(campaign)[0]


@contextmanager
def capture_range() -> Iterator[None]:
    """Marks the time of the block for a profiler of the GPU; nothing without CUDA."""
    _native.push_range(CAPTURE_RANGE)
    try:
        yield
    finally:
        _native.pop_range()


def _run(engine: Engine, sampler: Sampler | None, workload: Workload) -> tuple[Run, bool]:
    """The run, and whether Ctrl-C ended it; what there is then of steps and readings."""
    observer = Observer(engine, sampler)
    try:
        return EngineRunner(engine, sampler).run(workload), False
    except KeyboardInterrupt:
        readings = observer.end()
        if not observer.steps:
            raise
        return Run((), tuple(observer.steps), None, readings), True


def one_scenario(scenarios: tuple[Scenario, ...]) -> Scenario:
    """The only one; UsageError for more: a trace shows one run."""
    if len(scenarios) != 1:
        labels = ", ".join(scenario.label for scenario in scenarios[:3])
        raise UsageError(
            f"a trace shows one run, and these flags make {len(scenarios)} ({labels} …): give each "
            "flag one value"
        )
    return scenarios[0]
