"""How a search goes, and how far it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from orin_llm.errors import UsageError
from orin_llm.tune.knobs import Space

SMALL = 100  # combinations, at most, that are all looked at
IN_A_TURN = 4  # candidates between two measurements of the default
SHARE = 0.25  # of a small grid that is measured, at most, beside one knob at a time
FINALISTS = 2

MAX_SEED = (1 << 32) - 1  # of what Optuna draws


@dataclass(frozen=True)
class Plan:
    """How the search goes.

    Attributes:
        full: measure every combination with all repetitions, for a reference.
        repetitions: of a candidate that is measured fully, and pairs of the last comparison.
        most_trials: candidates that are measured before the best are compared; None: by the space.
        time_limit_s: after which only the last comparison begins; None: none.
        seed: of what is drawn.
    """

    full: bool = False
    repetitions: int = 5
    most_trials: int | None = None
    time_limit_s: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.repetitions < 2:
            raise UsageError(f"{self.repetitions} repetitions: at least 2 tell what is chance")
        if self.most_trials is not None and self.most_trials < 1:
            raise UsageError(f"{self.most_trials} trials: at least 1 is needed")
        if not 0 <= self.seed <= MAX_SEED:
            raise UsageError(f"--seed is {self.seed}: expected 0 … {MAX_SEED}")
        if self.time_limit_s is not None and not 0 < self.time_limit_s < math.inf:
            raise UsageError(f"a time limit of {self.time_limit_s:g} s: expected more than 0")


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


def expected(
    plan: Plan, space: Space, looks: int | None = None, contenders: int | None = None
) -> int:
    """Repetitions that are still to come, roughly, of a search that has these left to look at and
    to compare; None: it has not begun to."""
    size = space.combinations
    if plan.full:
        return math.ceil((size - 1) * (1 + 1 / IN_A_TURN) * plan.repetitions)
    alone = sum(len(knob.values) - 1 for knob in space.knobs)
    if looks is None:
        looks = alone + math.ceil(SHARE * size) if size <= SMALL else 2 * alone
        looks = plan.most_trials or min(size, looks)
    if contenders is None:
        contenders = max(FINALISTS, math.ceil((alone + looks) / 8))
    turns = math.ceil(looks / IN_A_TURN)
    return looks + turns + 3 * contenders + (FINALISTS + 1) * plan.repetitions
