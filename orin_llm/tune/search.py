"""Finds the candidate that serves a goal best, with few measurements."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence

from orin_llm.errors import UsageError
from orin_llm.tune.bench import Bench
from orin_llm.tune.goal import Goal
from orin_llm.tune.judge import ruled_out
from orin_llm.tune.knobs import Candidate, Space
from orin_llm.tune.outcome import Outcome, Trial
from orin_llm.tune.plan import FINALISTS, IN_A_TURN, SHARE, SMALL, Plan, Progress, expected
from orin_llm.tune.screen import neighbours, predictions, star
from orin_llm.tune.session import AGAIN, FINAL, Session
from orin_llm.tune.standings import (
    ALIKE,
    WORTHWHILE,
    distance,
    final_ratio,
    log_cost,
    outcome,
    ranked,
    winner,
)
from orin_llm.tune.study import Study
from orin_llm.tune.suggest import Suggestions

_MARGIN = 0.10  # by which a prediction may be beyond the best, for its candidate to be measured
_NEAR = 0.25  # by which a neighbour of the best may look worse, to be looked at again
_CLIMBS = 4
_LEAST_TRIALS = 30  # of a large space
_LEAST = 4  # candidates of the first round
_MOST_PAIRS = 2  # times the repetitions of the plan


class Tuner:
    """A search. Iterate `run()`; `outcome()` may be asked for at any time, after Ctrl-C too."""

    def __init__(
        self,
        space: Space,
        goal: Goal,
        bench: Bench,
        study: Study | None = None,
        plan: Plan | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Prepare; nothing is measured before `run()`.

        Args:
            study: trials that it has already are not measured again; None keeps them in memory.
            say: told why something is measured again, in one line.
        """
        self.plan = plan or Plan()
        self._session = Session(space, goal, bench, study or Study.open(None, space, goal, {}), say)
        self._space = space
        self._finished = False
        self._stage = "default"
        self._left = 0  # repetitions that are still planned, by the stage under way

    @property
    def progress(self) -> Progress:
        """How far it is."""
        done = self._session.repetitions
        left_s = self._session.elapsed_s / done * self._left if done else None
        return Progress(self._stage, done, done + self._left, left_s)

    def outcome(self) -> Outcome:
        """What follows from the trials so far."""
        return outcome(self._session, full=self.plan.full, finished=self._finished)

    def run(self) -> Iterator[Trial]:
        """Each trial when it has ended, pruned and failed ones, too.

        Raises:
            OrinError: the default cannot be measured.
            UsageError: the goal needs readings that there are none of.
        """
        self._left = expected(self.plan, self._space)
        yield from self._session.turn("default", [], 2)
        self._require_readings()
        if self.plan.full:
            yield from self._all()
        else:
            is_small = self._space.combinations <= SMALL
            yield from self._first_look() if is_small else self._search()
            yield from self._neighbours()
            contenders = yield from self._rounds()
            yield from self._last_comparison(contenders)
        self._finished, self._left = True, 0

    # Stages

    def _all(self) -> Iterator[Trial]:
        """The reference: everything, with all repetitions."""
        others = [c for c in self._space.candidates() if c != self._space.default]
        yield from self._measure("grid", others, self.plan.repetitions)

    def _first_look(self) -> Iterator[Trial]:
        """One knob at a time; then, of the others, those that these make look promising."""
        stage = "first look"
        alone = [*star(self._space)][: self.plan.most_trials]
        yield from self._measure(stage, alone, 1, judged=True)
        rest = [c for c in self._space.candidates() if c != self._space.default and c not in alone]
        room = self.plan.most_trials or len(alone) + math.ceil(SHARE * self._space.combinations)
        room -= len(alone)
        while rest and room > 0 and self._has_time():
            rest, known = self._reachable(rest), self._known()
            predicted = dict(zip(rest, predictions(self._space, known, rest), strict=True))
            limit = min(known.values()) + max(_MARGIN, 3 * self._session.noise)
            rest.sort(key=lambda c: predicted[c])
            chosen = [c for c in rest[: min(IN_A_TURN, room)] if predicted[c] <= limit]
            if not chosen:
                break
            room -= len(chosen)
            self._left = expected(self.plan, self._space, min(room, len(rest)))
            yield from self._measure(stage, chosen, 1, judged=True)
            rest = [c for c in rest if c not in chosen]
        note = "not promising, by its values one by one" if room > 0 else "beyond the trials"
        for candidate in rest:
            yield self._session.prune(stage, candidate, note)

    def _search(self) -> Iterator[Trial]:
        """Suggestions of Optuna, which is told of one knob at a time first."""
        stage = "search"
        alone = [*star(self._space)]
        room = self.plan.most_trials or max(_LEAST_TRIALS, 2 * len(alone))
        suggestions = Suggestions(self._space, self.plan.seed)
        suggestions.know(self._space.default, 0.0)
        queue = deque(alone[:room])
        while room > 0 and self._has_time():
            self._left = expected(self.plan, self._space, room)
            batch = [queue.popleft() for _ in range(min(len(queue), IN_A_TURN, room))]
            while len(batch) < min(IN_A_TURN, room) and not queue:
                asked = suggestions.ask()
                if asked is None:
                    break
                batch.append(asked)
            if not batch:
                return
            room -= len(batch)
            yield from self._measure(stage, batch, 1, judged=True)
            for candidate in batch:
                log = log_cost(self._session, candidate)
                if log is None:
                    suggestions.drop(candidate)
                else:
                    suggestions.know(candidate, log + self._penalty(candidate))

    def _neighbours(self) -> Iterator[Trial]:
        """What is one step away from the best, where it was looked at once at most: one look may
        have been unlucky, and a value may do better beside other values than beside the default's.
        """
        seen: set[Candidate] = set()
        for _ in range(_CLIMBS):
            known = self._known()
            leader = ranked(self._session, [*known])[0]
            if leader in seen or not self._has_time():
                return
            seen.add(leader)
            near = self._reachable(neighbours(self._space, leader))
            near = [c for c in near if len(self._session.logs(c)) < 2]
            limit = known[leader] + _NEAR
            logs = [known.get(c, log) for c, log in
                    zip(near, predictions(self._space, known, near), strict=True)]  # fmt: skip
            chosen = [c for c, log in zip(near, logs, strict=True) if log <= limit]
            yield from self._measure("neighbours", chosen, 1, judged=True)

    def _rounds(self) -> Generator[Trial, None, list[Candidate]]:
        """More repetitions for fewer candidates, until those of the last comparison are left."""
        known = [*self._known()]
        contenders = among = self._contenders(known, max(_LEAST, math.ceil(len(known) / 4)))
        number, repetitions = 1, 2
        while len(contenders) > FINALISTS and self._has_time():
            self._left = expected(self.plan, self._space, 0, len(contenders))
            yield from self._measure(f"round {number}", contenders, repetitions)
            among = self._contenders(contenders, len(contenders))
            contenders = among[: max(FINALISTS, math.ceil(len(among) / 3))]
            number, repetitions = number + 1, min(2 * repetitions, self.plan.repetitions)
        return self._finalists(among)

    def _last_comparison(self, contenders: Sequence[Candidate]) -> Iterator[Trial]:
        """The best in turns with the default, until it is clear or has been tried for long."""
        if not contenders:
            return
        self._stage = FINAL
        most = _MOST_PAIRS * self.plan.repetitions
        for pair in range(most):
            self._left = max(0, self.plan.repetitions - pair) * (len(contenders) + 1)
            backwards = pair % 2 == 1
            yield from self._session.turn(FINAL, contenders, 1, backwards=backwards)
            # Looked at once, strictly: who looks after each pair finds a difference by chance.
            if pair + 1 == self.plan.repetitions and self._is_clear(contenders):
                return

    # Choices

    def _measure(
        self, stage: str, candidates: Sequence[Candidate], repetitions: int, *, judged: bool = False
    ) -> Iterator[Trial]:
        """In turns with the default; again where that drifted meanwhile."""
        self._stage = stage
        queue, measured = deque(candidates), Counter[Candidate]()

        def skip(candidate: Candidate) -> str:
            is_first = judged and not measured[candidate]
            return ruled_out(candidate, self._session.trials) if is_first else ""

        while self._has_time():
            batch = [queue.popleft() for _ in range(min(len(queue), IN_A_TURN))]
            for trial in self._session.turn(stage, batch, repetitions, skip=skip):
                self._left = max(0, self._left - repetitions)
                yield trial
            queue.extend(c for c in self._session.suspects if measured[c] <= AGAIN)
            measured.update(batch)
            if not batch and not queue:  # the default came last, and was as before
                return

    def _contenders(self, among: Sequence[Candidate], most: int) -> list[Candidate]:
        """The best of some, as many as may turn out to be the best of all; not the default."""
        default = self._space.default
        known = self._known()
        order = [c for c in ranked(self._session, among) if c != default]
        if not order:
            return []
        held = [c for c in order if self._penalty(c) == 0]
        if self._penalty(default) == 0:
            limit = 0.0 + max(0.01, 2 * self._session.noise)
            held = [c for c in held if known[c] < limit]
        if not held:
            return []
        if len(self._session.logs(held[0])) < 3:  # one look may have been lucky by any amount
            return held[:most]
        near = known[held[0]] + max(0.03, 3 * self._session.noise)
        return [c for c in held if known[c] <= near][:most]

    def _finalists(self, among: Sequence[Candidate]) -> list[Candidate]:
        """The best, and the nearest to the default of those that are like it, or the second."""
        if len(among) <= 1:
            return [*among]
        known = self._known()
        limit = known[among[0]] + max(ALIKE, 2 * self._session.noise)
        alike = [candidate for candidate in among if known[candidate] <= limit]
        nearest = min(alike, key=lambda candidate: distance(self._space, candidate))
        return [among[0], nearest if nearest != among[0] else among[1]]

    def _is_clear(self, contenders: Sequence[Candidate]) -> bool:
        """Whether the best is far from the default, or surely not better."""
        ratio = final_ratio(self._session, winner(self._session, contenders))
        if ratio is None or ratio.high is None:
            return ratio is None
        return ratio.high < 1 - ALIKE or ratio.value > WORTHWHILE

    def _reachable(self, rest: Sequence[Candidate]) -> list[Candidate]:
        """Those without a value that failed, or was ruled out, when it was all that was other."""
        default = self._space.default
        gone = {t.candidate for t in self._session.trials if t.state in ("pruned", "failed")}
        gone -= {*self._known()}
        return [
            candidate
            for candidate in rest
            if not any(default.having(name, value) in gone for name, value in candidate.pairs)
        ]

    def _known(self) -> dict[Candidate, float]:
        """Log costs of what was measured."""
        logs = {c: log_cost(self._session, c) for c in self._session.measured()}
        return {candidate: log for candidate, log in logs.items() if log is not None}

    def _penalty(self, candidate: Candidate) -> float:
        measurement = self._session.measurement(candidate)
        return self._session.goal.excess(measurement) if measurement else 0.0

    def _has_time(self) -> bool:
        limit = self.plan.time_limit_s
        return limit is None or self._session.elapsed_s < limit

    def _require_readings(self) -> None:
        measured = self._session.measurement(self._space.default)
        if self._session.goal.needs_power and (measured is None or measured.power_w is None):
            raise UsageError(
                f"the goal {self._session.goal.name} needs readings of power, and there are none "
                "here (orin-llm monitor --once shows what can be read): choose another goal, or "
                "leave --power out"
            )
