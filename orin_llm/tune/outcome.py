"""What a search leaves: every trial, and what follows from all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from orin_llm.tune.goal import Goal
from orin_llm.tune.knobs import Candidate, Space, Value
from orin_llm.tune.measurement import Measurement
from orin_llm.tune.pairs import Ratio

State = Literal["measured", "pruned", "failed", "drifted"]
Decision = Literal["better", "noise", "default", "infeasible", "unfinished"]
Bound = Literal["bandwidth", "compute", "launch", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """What the readings of a trial say, and what follows for other candidates.

    Attributes:
        phase: `prefill` or `decode`.
        bound: what limits it.
        reason: in words, with the figures.
        advice: what follows from it, in words; "" for nothing.
    """

    phase: str
    bound: Bound
    reason: str
    advice: str = ""


@dataclass(frozen=True)
class Trial:
    """One measurement of one candidate, or why there is none.

    Attributes:
        number: from 1, in order.
        stage: `default`, `grid`, `first look`, `search`, `round 1` …, `final`.
        turn: trials of one turn were measured behind each other, the default among them.
        measurement: None where it was pruned or failed.
        cost: relative to the default in the same turn: below 1 is better; None where it has none.
        violations: bounds that do not hold.
        verdicts: the judge's.
        note: why it was pruned, failed or repeated; "".
        took_s: of the bench's clock; waiting for a cooler machine before it is part of it.
    """

    number: int
    stage: str
    turn: int
    candidate: Candidate
    state: State
    measurement: Measurement | None = None
    cost: float | None = None
    violations: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    note: str = ""
    took_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """All fields; `from_json` reads it."""
        return {
            "number": self.number,
            "stage": self.stage,
            "turn": self.turn,
            "candidate": dict(self.candidate),
            "state": self.state,
            "measurement": self.measurement.to_json() if self.measurement else None,
            "cost": self.cost,
            "violations": list(self.violations),
            "verdicts": [vars(verdict) for verdict in self.verdicts],
            "note": self.note,
            "took_s": self.took_s,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Trial:
        """What `to_json` gave, by way of JSON.

        Raises KeyError, TypeError or ValueError for something else.
        """
        measurement, state = data["measurement"], data["state"]
        if state not in get_args(State):
            raise ValueError(f"a trial's state is {state!r}: expected {', '.join(get_args(State))}")
        if (state in ("measured", "drifted")) != bool(measurement):
            raise ValueError(f"a trial is {state}, {'with' if measurement else 'without'} figures")
        return cls(
            **{
                **data,
                "candidate": Candidate.of(data["candidate"]),
                "measurement": Measurement.from_json(measurement) if measurement else None,
                "violations": tuple(data["violations"]),
                "verdicts": tuple(Verdict(**verdict) for verdict in data["verdicts"]),
            }
        )


@dataclass(frozen=True)
class Standing:
    """A candidate after all its trials.

    Attributes:
        measurement: all its repetitions.
        cost: relative to the default, turn by turn; None where none could be told.
    """

    candidate: Candidate
    measurement: Measurement
    cost: Ratio | None
    violations: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    trials: int


@dataclass(frozen=True)
class Outcome:
    """What came out.

    Attributes:
        decision: `better`: than the default, in turns with it and beyond noise; `noise`: the best
            differs from the default by no more than chance, and the default is kept; `default`: it
            is the best; `infeasible`: nothing holds the bounds, `best` is nearest to them;
            `unfinished`: ended before the last comparison, `best` is the best so far.
        reason: the same in words, with figures.
        best: what to use.
        default: None where not even that was measured.
        runners_up: by cost, the best first; `best` and the default are not among them.
        indistinguishable: candidates that differ from the best by no more than chance.
        trials: all, pruned and failed ones, too.
        elapsed_s: of the bench's clock, earlier sessions of the same study included.
        noise: standard deviation of the logarithm of one repetition's cost: 0.02 for 2 %; a machine
            that is busy with other things has much of it.
    """

    goal: Goal
    space: Space
    decision: Decision
    reason: str
    best: Standing | None
    default: Standing | None
    runners_up: tuple[Standing, ...]
    indistinguishable: tuple[Candidate, ...]
    trials: tuple[Trial, ...]
    elapsed_s: float
    noise: float

    @property
    def settings(self) -> dict[str, Value]:
        """What a profile keeps: by the fields of `EngineConfig`; empty without a best."""
        return self.space.settings(self.best.candidate) if self.best else {}
