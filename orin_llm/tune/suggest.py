"""Candidates of a space too large to look at all: Optuna's tree-structured Parzen estimator."""

from __future__ import annotations

from typing import Any

from orin_llm.tune.knobs import Candidate, Knob, Space
from orin_llm.tune.study import import_optuna

_ASKED = 50  # times for one candidate: what is not allowed, or known already, is told at once


class Suggestions:
    """Asks and is told. The same seed and answers give the same suggestions."""

    def __init__(self, space: Space, seed: int) -> None:
        optuna = import_optuna()
        self._space = space
        self._failed = optuna.trial.TrialState.FAIL
        self._create = optuna.trial.create_trial
        self._distributions = {knob.name: _distribution(optuna, knob) for knob in space.knobs}
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        self._study = optuna.create_study(sampler=sampler)
        self._open: dict[Candidate, Any] = {}
        self._known: dict[Candidate, float] = {}

    def know(self, candidate: Candidate, log_cost: float) -> None:
        """Tell of a candidate, whether it was asked for or not."""
        self._known[candidate] = log_cost
        trial = self._open.pop(candidate, None)
        if trial is not None:
            self._study.tell(trial, log_cost)
            return
        params = {knob.name: self._index(knob, candidate) for knob in self._space.knobs}
        self._study.add_trial(
            self._create(params=params, distributions=self._distributions, value=log_cost)
        )

    def drop(self, candidate: Candidate) -> None:
        """Tell that a candidate that was asked for has no cost."""
        trial = self._open.pop(candidate, None)
        if trial is not None:
            self._study.tell(trial, state=self._failed)

    def ask(self) -> Candidate | None:
        """A candidate that is not known; None where the space seems to have none left."""
        for _ in range(_ASKED):
            trial = self._study.ask(self._distributions)
            values = [(k.name, k.values[int(trial.params[k.name])]) for k in self._space.knobs]
            candidate = Candidate(tuple(values))
            if not self._space.allowed(candidate):
                self._study.tell(trial, state=self._failed)
            elif candidate in self._known:
                self._study.tell(trial, self._known[candidate])
            elif candidate in self._open:
                self._study.tell(trial, state=self._failed)
            else:
                self._open[candidate] = trial
                return candidate
        return None

    @staticmethod
    def _index(knob: Knob, candidate: Candidate) -> int:
        return knob.values.index(candidate[knob.name])


def _distribution(optuna: Any, knob: Knob) -> Any:
    """Of a value's place: numbers have an order, texts none."""
    if all(isinstance(value, int) for value in knob.values):
        return optuna.distributions.IntDistribution(0, len(knob.values) - 1)
    return optuna.distributions.CategoricalDistribution(list(range(len(knob.values))))
