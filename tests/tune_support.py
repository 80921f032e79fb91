"""Measurements and searches as the tests of tuning make them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from orin_llm.errors import OrinError
from orin_llm.tune.bench import Effort
from orin_llm.tune.goal import Goal
from orin_llm.tune.knobs import Candidate, Knob, Space
from orin_llm.tune.measurement import Measurement, Sample
from orin_llm.tune.outcome import Outcome, Trial
from orin_llm.tune.plan import Plan
from orin_llm.tune.search import Tuner
from orin_llm.tune.study import Study

TTFT = Goal("ttft")
SMALL = Space((Knob("chunk_size", (128, 256, 512), 512), Knob("page_size", (16, 32), 16)))
BEST = {("chunk_size", 256): 0.8, ("chunk_size", 128): 0.9, ("page_size", 32): 0.9}
Cost = Callable[[Candidate, int], float]


def measured(ttft_ms: float | Mapping[int, float] = 100.0, **more: Any) -> Measurement:
    """One repetition with this TTFT."""
    of_lengths = ttft_ms if isinstance(ttft_ms, Mapping) else {512: ttft_ms}
    of_sample = {name: more.pop(name) for name in [*more] if name in Sample.__dataclass_fields__}
    return Measurement((Sample(ttft_ms=of_lengths, **of_sample),), **more)


class TableBench:
    """Every repetition of a candidate takes what `cost` says, in seconds; loading takes one.

    `cost` is told how many repetitions were measured before. It may raise OrinError, or
    KeyboardInterrupt. Attributes of measurements come from `about`.
    """

    def __init__(
        self, cost: Cost, about: Callable[[Candidate, int], dict[str, Any]] | None = None
    ) -> None:
        self._cost, self._about = cost, about
        self.done = self.settled = 0
        self.seconds = 0.0
        self.asked: list[Candidate] = []

    def measure(self, candidate: Candidate, effort: Effort) -> Measurement:
        self.asked.append(candidate)
        self.seconds += 1.0
        samples = []
        more = self._about(candidate, self.done) if self._about else {}
        for _ in range(effort.repetitions):
            seconds = self._cost(candidate, self.done)
            self.done += 1
            self.seconds += seconds
            samples.append(Sample(ttft_ms={512: seconds * 1e3}, elapsed_s=seconds))
        return Measurement(tuple(samples), load_s=1.0, **more)

    def settle(self) -> float:
        self.settled += 1
        self.seconds += 10.0
        return 10.0

    def now_s(self) -> float:
        return self.seconds


def by_value(table: Mapping[tuple[str, Any], float]) -> Cost:
    """A cost that is the product of what each value of the candidate contributes."""

    def cost(candidate: Candidate, done: int) -> float:
        product = 1.0
        for pair in candidate.pairs:
            product *= table.get(pair, 1.0)
        return product

    return cost


def search(
    bench: Any,
    space: Space = SMALL,
    goal: Goal = TTFT,
    study: Study | None = None,
    **plan: Any,
) -> tuple[Tuner, list[Trial]]:
    """Search to the end."""
    tuner = Tuner(space, goal, bench, study, Plan(**plan))
    return tuner, list(tuner.run())


def refuse(candidate: Candidate, done: int) -> float:
    raise OrinError("no room")


def noisy(table: dict[tuple[str, Any], float], sigma: float, seed: int = 0) -> TableBench:
    chance = random.Random(seed)
    exact = by_value(table)
    return TableBench(lambda c, done: exact(c, done) * math.exp(chance.gauss(0, sigma)))


def found(bench: TableBench, **more: Any) -> Outcome:
    return search(bench, **more)[0].outcome()
