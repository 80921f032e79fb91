"""Finds the candidate that serves a goal best, with few measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orin_llm.tune.bench import Bench
from orin_llm.tune.goal import Goal
from orin_llm.tune.knobs import Space
from orin_llm.tune.outcome import Outcome, Trial


@dataclass(frozen=True)
class Plan:
    """How the search goes.

    Attributes:
        full: measure every combination with all repetitions, for a reference.
        repetitions: of a candidate that is measured fully, and pairs of the last comparison.
        most_trials: of a space too large for every combination; None: some, by its size.
        time_limit_s: after which no further trial begins, except the last comparison; None: none.
        seed: of what is drawn.
    """

    full: bool = False
    repetitions: int = 5
    most_trials: int | None = None
    time_limit_s: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Progress:
    """How far it is.

    Attributes:
        stage: as in the trials.
        done, total: repetitions; `total` is what the plan comes to as it looks now.
        left_s: seconds that are left, by what a repetition took so far; None at the start.
    """

    stage: str
    done: int
    total: int
    left_s: float | None


class Tuner:
    """A search. Iterate `run()`; `outcome()` may be asked for at any time, after Ctrl-C too."""

    def __init__(
        self,
        space: Space,
        goal: Goal,
        bench: Bench,
        study: Path | None = None,
        plan: Plan | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Open the study, a SQLite file: trials that it has already are not measured again.

        Args:
            study: None keeps the trials in memory.
            say: told what is measured next, in one line.

        Raises:
            UsageError: the study is of another space, goal or machine, or no study.
        """
        raise NotImplementedError

    @property
    def progress(self) -> Progress:
        """How far it is."""
        raise NotImplementedError

    def run(self) -> Iterator[Trial]:
        """Each trial when it has ended, pruned and failed ones, too."""
        raise NotImplementedError

    def outcome(self) -> Outcome:
        """What follows from the trials so far."""
        raise NotImplementedError
