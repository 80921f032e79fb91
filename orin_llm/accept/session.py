"""A check from its first indicator to the last: each outcome as soon as it is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial

from orin_llm.accept.figures import Figures
from orin_llm.accept.indicators import Indicator
from orin_llm.accept.measure import Bench, OnRun, Raw
from orin_llm.accept.outcome import Outcome, judge, unmeasured
from orin_llm.accept.perplexity import NO_REFERENCE, measure_perplexity
from orin_llm.accept.plan import Plan
from orin_llm.accept.result import Acceptance
from orin_llm.bench.campaign import MakeEngine
from orin_llm.bench.environment import environment, machine
from orin_llm.bench.runner import EngineRunner
from orin_llm.bench.watch import INTERVAL_MS
from orin_llm.device.board import read_board
from orin_llm.device.reading import Reading
from orin_llm.device.sampler import Sampler
from orin_llm.device.sources import Sensors, open_sensors
from orin_llm.engine import Engine
from orin_llm.engine.loaded_model import read_model_header
from orin_llm.errors import OrinError, UsageError
from orin_llm.models.reporter import Progress, Reporter
from orin_llm.quality.compare import Opener


class Session:
    """One check. `outcomes` runs it; `result` sums up what is there then.

    Args:
        load: makes the engine; opener: a model for perplexity.
        report: told how far each indicator is.
    """

    def __init__(self, plan: Plan, load: MakeEngine, opener: Opener, report: Reporter) -> None:
        self._plan = plan
        self._load = load
        self._opener = opener
        self._report = report
        self._device = ""  # where the model was computed
        self._settings: dict[str, object] = {}
        self._at_start: Reading | None = None
        header = read_model_header(plan.model)  # now: the file may be gone when all is done
        self._environment = environment(plan.model, header, "", plan.stamp)

    def outcomes(self) -> Iterator[Outcome]:
        """Measure and judge every indicator of the plan.

        RoPE comes after all others that the engine computes, since it counts what they looked up;
        perplexity last, when the engine is closed and two models have room.

        Raises:
            ModelFileError: the model cannot be used.
            OrinError: the engine cannot be made, or computes nothing at all.
        """
        of_engine = [one for one in self._plan.indicators if one.name != "perplexity"]
        if of_engine:
            with ExitStack() as stack:
                bench = self._open(stack)
                self._report.message("warm-up")
                bench.warm_up()
                for indicator in sorted(of_engine, key=lambda one: one.name == "rope"):
                    yield self._outcome(indicator, partial(bench.measure, indicator.name))
        for indicator in self._plan.indicators:
            if indicator.name == "perplexity":
                yield self._outcome(indicator, self._perplexity)

    def result(
        self, outcomes: Sequence[Outcome], *, allow_unmeasured: bool, interrupted: bool
    ) -> Acceptance:
        """The whole; indicators without an outcome were not measured."""
        plan, found = self._plan, {outcome.indicator.number: outcome for outcome in outcomes}
        return Acceptance(
            environment={
                **self._environment,
                **machine(self._device, plan.stamp, self._at_start),
            },
            settings=self._settings,
            outcomes=tuple(
                found.get(one.number) or self._not_measured(one) for one in plan.indicators
            ),
            allow_unmeasured=allow_unmeasured,
            interrupted=interrupted,
        )

    def _not_measured(self, indicator: Indicator) -> Outcome:
        figures = unmeasured(indicator, "the check was ended before")
        return self._judged(indicator, figures)

    def _perplexity(self, on_window: OnRun, raw: Raw) -> Figures:
        if self._plan.reference is None:
            return Figures(unmeasured={"ppl_ratio": NO_REFERENCE})
        figures = measure_perplexity(self._plan, self._opener, on_window, raw)
        self._device = self._device or raw["model"]["backend"]["device"]
        return figures

    def _outcome(self, indicator: Indicator, measure: Callable[[OnRun, Raw], Figures]) -> Outcome:
        step = f"{indicator.number} {indicator.name}"
        self._report.message(f"{step}: measuring")  # a single run shows no progress until its end
        unit = "windows" if indicator.name == "perplexity" else "runs"
        began = time.monotonic()
        error = ""
        raw: Raw = {}
        try:
            figures = measure(
                lambda done, total: self._report.progress(Progress(step, done, total, unit)), raw
            )
        except UsageError as refusal:  # what was asked cannot be: that is not the model's fault
            figures = unmeasured(indicator, str(refusal))
        except OrinError as failure:
            error = str(failure)
            figures = unmeasured(indicator, "")
        return self._judged(indicator, figures, (time.monotonic() - began) * 1e3, error, raw)

    def _judged(
        self,
        indicator: Indicator,
        figures: Figures,
        elapsed_ms: float = 0.0,
        error: str = "",
        raw: Raw | None = None,
    ) -> Outcome:
        plan, asked = self._plan, getattr(self._plan.shapes, indicator.name)
        judgements = judge(indicator, figures, plan.limits, plan.no_limit)
        return Outcome(
            indicator, asked.text, asdict(asked), judgements, figures.beside, elapsed_ms, error,
            raw or {},
        )  # fmt: skip

    def _open(self, stack: ExitStack) -> Bench:
        plan = self._plan
        sensors = stack.enter_context(
            open_sensors(read_board(plan.root), INTERVAL_MS, root=plan.root)
        )
        engine = stack.enter_context(self._load(plan.model, plan.config))
        self._device = engine.backend["device"]
        self._settings = EngineRunner(engine).settings
        sampler = stack.enter_context(Sampler(sensors, INTERVAL_MS))
        self._at_start = sampler.sample()
        return Bench(engine, sampler, plan.shapes, _no_gpu(engine, sensors))


def _no_gpu(engine: Engine, sensors: Sensors) -> str:
    if engine.backend["device"] == "cpu":
        return (
            "the model is computed on the CPU, and no sensor tells of a GPU's load: use a build "
            "with CUDA on a machine with an NVIDIA GPU (orin-llm doctor)"
        )
    problems = {**sensors.unavailable, **sensors.problems}
    why = "; ".join(f"{name}: {text}" for name, text in problems.items())
    return f"no sensor tells the GPU's load ({why}): see orin-llm monitor --once"
