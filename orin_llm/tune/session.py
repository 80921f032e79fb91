"""Measures candidates in turns with the default, again where the machine drifted meanwhile, and
keeps all of it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median

from orin_llm.errors import OrinError
from orin_llm.tune.bench import Bench, Effort
from orin_llm.tune.drift import Drift, noise
from orin_llm.tune.goal import Goal
from orin_llm.tune.judge import judge
from orin_llm.tune.knobs import Candidate, Space
from orin_llm.tune.measurement import Measurement, Sample
from orin_llm.tune.outcome import State, Trial, Verdict
from orin_llm.tune.study import Study

FINAL = "final"
AGAIN = 2  # times that a candidate of a turn with a drift is measured again
_ATTEMPTS = 3  # of one measurement while conditions drift
_LASTING = 3  # measurements that drifted in every attempt: the machine is like that now

Key = tuple[str, int, Candidate]


class Session:
    """Trials so far, and how one more comes about.

    Attributes:
        trials: in order.
        suspects: candidates of the last turn if the default's own time changed during it.
    """

    def __init__(
        self, space: Space, goal: Goal, bench: Bench, study: Study, say: Callable[[str], None]
    ) -> None:
        self.space, self.goal = space, goal
        self.trials: list[Trial] = []
        self.suspects: tuple[Candidate, ...] = ()
        self._bench, self._study, self._say = bench, study, say
        self._drift = Drift()
        self._turn = 0
        self._in_turn: list[Candidate] = []
        self._discounted: set[int] = set()
        self._of: dict[Candidate, list[Trial]] = {}  # those that were measured
        self._references: dict[int, list[Sample]] = {}  # the default's, by turn
        self._lasting = 0
        self._recorded: dict[Key, deque[Trial]] = {}
        for trial in study.trials:
            key = trial.stage, trial.turn, trial.candidate
            self._recorded.setdefault(key, deque()).append(trial)

    # Measuring

    def turn(
        self,
        stage: str,
        candidates: Sequence[Candidate],
        repetitions: int,
        *,
        skip: Callable[[Candidate], str] = lambda candidate: "",
        backwards: bool = False,
    ) -> Iterator[Trial]:
        """The default and some candidates, one behind the other; each trial when it has ended.

        skip: asked right before a candidate is measured; says why it need not be, or "".
        """
        before, self._in_turn = self._in_turn, []
        self.suspects = ()
        order = [self.space.default, *candidates]
        if stage != FINAL and not before and len(self._reference(self._turn)) >= repetitions:
            order = [*candidates]  # the last turn was the default alone
        else:
            self._turn += 1
        for candidate in reversed(order) if backwards else order:
            is_default = candidate == self.space.default
            if not is_default and (reason := skip(candidate)):
                yield self.prune(stage, candidate, reason)
                continue
            for trial in self._trials(stage, candidate, repetitions):
                yield trial
                if is_default and trial.state == "measured" and stage != FINAL:
                    self._compare_turns(before)
                if not is_default and trial.state == "measured":
                    self._in_turn.append(candidate)

    def prune(self, stage: str, candidate: Candidate, note: str) -> Trial:
        """Note that a candidate is not measured, and why."""
        key = stage, self._turn, candidate
        if self._recorded.get(key):
            return self._keep(self._recorded[key].popleft(), is_new=False)
        return self._keep(self._trial(stage, candidate, "pruned", note=note))

    def _trials(self, stage: str, candidate: Candidate, repetitions: int) -> Iterator[Trial]:
        for attempt in range(1, _ATTEMPTS + 1):
            recorded = self._recorded.get((stage, self._turn, candidate))
            if recorded and _serves(recorded[0], repetitions):
                trial = self._keep(recorded.popleft(), is_new=False)
            else:
                may_repeat = attempt < _ATTEMPTS and self._lasting < _LASTING
                trial = self._keep(self._measure(stage, candidate, repetitions, may_repeat))
            yield trial
            if trial.state != "drifted":
                return

    def _measure(
        self, stage: str, candidate: Candidate, repetitions: int, may_repeat: bool
    ) -> Trial:
        is_default = candidate == self.space.default
        began = self._bench.now_s()
        try:
            measured = self._bench.measure(candidate, Effort(repetitions))
        except OrinError as error:
            if is_default:
                raise
            return self._trial(
                stage, candidate, "failed", note=str(error), took_s=self._bench.now_s() - began
            )
        trouble = self._drift.of_conditions(measured)
        if is_default and not trouble:
            trouble = self._drift.of_clocks(measured)
        state: State = "measured"
        if trouble and may_repeat:
            state = "drifted"
            self._say(f"{trouble}: waiting until the machine is as it was")
            self._bench.settle()
        elif trouble:
            self._lasting += 1
        took_s = self._bench.now_s() - began
        if state == "measured" and is_default:
            self._drift.begin(measured)
        return self._trial(stage, candidate, state, measured, note=trouble, took_s=took_s)

    def _trial(
        self,
        stage: str,
        candidate: Candidate,
        state: State,
        measured: Measurement | None = None,
        *,
        note: str = "",
        took_s: float = 0.0,
    ) -> Trial:
        cost = None
        if measured is not None and state == "measured":
            nearest = self._reference(self._turn) or self._reference(self._turn - 1)
            logs = self._logs_of(measured.samples, nearest)
            cost = 1.0 if candidate == self.space.default else _exp_median(logs)
        trial = Trial(
            number=len(self.trials) + 1,
            stage=stage,
            turn=self._turn,
            candidate=candidate,
            state=state,
            measurement=measured,
            cost=cost,
            violations=self.goal.violations(measured) if measured else (),
            note=note,
            took_s=took_s,
        )
        verdicts: tuple[Verdict, ...] = judge(trial, self.trials)
        return replace(trial, verdicts=verdicts)

    def _keep(self, trial: Trial, *, is_new: bool = True) -> Trial:
        trial = replace(trial, number=len(self.trials) + 1)
        if is_new:
            self._study.add(trial)
        elif trial.candidate == self.space.default and trial.state == "measured":
            assert trial.measurement is not None
            self._drift.begin(trial.measurement)
        self.trials.append(trial)
        if trial.state == "measured" and trial.measurement is not None:
            self._of.setdefault(trial.candidate, []).append(trial)
            if trial.candidate == self.space.default:
                samples = self._references.setdefault(trial.turn, [])
                samples += trial.measurement.samples
        return trial

    def _compare_turns(self, candidates: Sequence[Candidate]) -> None:
        """Whether the default's time is what it was a turn ago; else that turn says nothing."""
        now, before = self._reference(self._turn), self._reference(self._turn - 1)
        logs = self._logs_of(now, before)
        if not logs:
            return
        trouble = self._drift.of_time(median(logs))
        if trouble and candidates:
            self._say(f"{trouble}: measuring the last ones again")
            self._discounted.add(self._turn - 1)
            self.suspects = tuple(candidates)

    # What follows from the trials

    def measured(self) -> list[Candidate]:
        """Candidates that have a cost, in the order of their first measurement, the default
        first."""
        return list(dict.fromkeys([self.space.default, *self._of]))

    def logs(self, candidate: Candidate, stage: str | None = None) -> list[float]:
        """Log costs of a candidate's repetitions, relative to the default in their turns.

        Turns in which the default itself changed say nothing; all of them do, together, where a
        candidate was never measured in another.
        """
        trials = [t for t in self._of.get(candidate, ()) if stage in (None, t.stage)]
        good = [t for t in trials if t.turn not in self._discounted]
        found: list[float] = []
        for trial in good or (trials if len(trials) > AGAIN else []):
            assert trial.measurement is not None
            references = self._reference(trial.turn)
            if trial.stage != FINAL:  # there the next turn's belong to its own pairs
                references = [*references, *self._reference(trial.turn + 1)]
            found += self._logs_of(trial.measurement.samples, references)
        return found

    def measurement(self, candidate: Candidate) -> Measurement | None:
        """All repetitions of a candidate together."""
        parts = [t.measurement for t in self._of.get(candidate, ()) if t.measurement is not None]
        return Measurement.joined(parts) if parts else None

    @property
    def noise(self) -> float:
        """The standard deviation of the log cost of one repetition."""
        samples = [s for t in self._of.get(self.space.default, ()) if t.measurement
                   for s in t.measurement.samples]  # fmt: skip
        if not samples:
            return 0.0
        logs = [self.goal.log_cost(sample, samples[0]) for sample in samples]
        return noise([log for log in logs if log is not None])

    @property
    def elapsed_s(self) -> float:
        """Of all trials, those of earlier sessions included."""
        return sum(trial.took_s for trial in self.trials)

    @property
    def repetitions(self) -> int:
        """That were measured."""
        return sum(len(t.measurement.samples) for t in self.trials if t.measurement)

    def _reference(self, turn: int) -> Sequence[Sample]:
        return self._references.get(turn, ())

    def _logs_of(self, samples: Sequence[Sample], references: Sequence[Sample]) -> list[float]:
        """Of each sample the mean over the references; those that cannot be told are left out."""
        found: list[float] = []
        for sample in samples:
            logs = [self.goal.log_cost(sample, reference) for reference in references]
            known = [log for log in logs if log is not None]
            if known:
                found.append(sum(known) / len(known))
        return found


def _serves(trial: Trial, repetitions: int) -> bool:
    """Whether an earlier trial stands for one of so many; a drifted one was ended early."""
    measured = trial.measurement
    return measured is None or trial.state == "drifted" or len(measured.samples) >= repetitions


def _exp_median(logs: Sequence[float]) -> float | None:
    return math.exp(median(logs)) if logs else None
