"""What came of an indicator: its figures beside their limits, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from orin_llm.accept.figures import Figures
from orin_llm.accept.indicators import Criterion, Indicator
from orin_llm.accept.thresholds import Limit

Status = Literal["passed", "failed", "not measurable", "not judged"]
# The first of these that any part has is that of the whole.
_ORDER: tuple[Status, ...] = ("failed", "not measurable", "not judged", "passed")


@dataclass(frozen=True)
class Judgement:
    """A figure and its limit.

    Attributes:
        value: None where it could not be measured.
        limit: None where none is set for this board and model.
        reason: why there is no value or no limit, and what to do; else "".
    """

    criterion: Criterion
    value: float | None
    limit: Limit | None
    reason: str = ""

    @property
    def status(self) -> Status:
        """What could not be measured is never passed, and neither is what has no limit."""
        if self.value is None:
            return "not measurable"
        if self.limit is None:
            return "not judged"
        return "passed" if self.criterion.holds(self.value, self.limit.value) else "failed"

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "name": self.criterion.name,
            "title": self.criterion.title,
            "status": self.status,
            "value": self.value,
            "must_be": self.criterion.sign,
            "limit": self.limit.value if self.limit else None,
            "limit_from": self.limit.source if self.limit else None,
            "reason": self.reason or None,
        }


@dataclass(frozen=True)
class Outcome:
    """One indicator of a check.

    Attributes:
        shape: what was asked, in words; asked: the same as numbers.
        beside: figures that explain those that are judged.
        error: why the measurement itself failed, or "".
        raw: what the figures were computed from, for evidence.
    """

    indicator: Indicator
    shape: str
    asked: Mapping[str, int]
    judgements: tuple[Judgement, ...]
    beside: Mapping[str, float] = field(default_factory=dict)
    elapsed_ms: float = 0.0
    error: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def status(self) -> Status:
        """The worst of its parts; an error in the measurement is a failure."""
        if self.error:
            return "failed"
        found = {judgement.status for judgement in self.judgements}
        return next(status for status in _ORDER if status in found)

    @property
    def reasons(self) -> list[str]:
        """The error, and why parts were not measured or judged, each once."""
        given = [self.error, *(judgement.reason for judgement in self.judgements)]
        return list(dict.fromkeys(reason for reason in given if reason))

    def to_json(self) -> dict[str, Any]:
        """All but what it was computed from."""
        return {
            "number": self.indicator.number,
            "name": self.indicator.name,
            "title": self.indicator.title,
            "status": self.status,
            "shape": {"text": self.shape, **self.asked},
            "checks": [judgement.to_json() for judgement in self.judgements],
            "figures": dict(self.beside),
            "error": self.error or None,
            "elapsed_ms": self.elapsed_ms,
        }


def judge(
    indicator: Indicator, figures: Figures, limits: Mapping[str, Limit], no_limit: str
) -> tuple[Judgement, ...]:
    """Put an indicator's figures beside their limits.

    Args:
        no_limit: why there may be no limit, and what to do.
    """
    judgements = []
    for criterion in indicator.criteria:
        value, limit = figures.values.get(criterion.name), limits.get(criterion.name)
        reason = figures.unmeasured.get(criterion.name, "")
        if value is not None and limit is None:
            reason = no_limit
        judgements.append(Judgement(criterion, value, limit, reason))
    return tuple(judgements)


def unmeasured(indicator: Indicator, reason: str) -> Figures:
    """Of an indicator that could not be measured at all."""
    return Figures(unmeasured={criterion.name: reason for criterion in indicator.criteria})


def count(outcomes: Sequence[Outcome]) -> dict[Status, int]:
    """How many there are of each status, the good ones first."""
    found = [outcome.status for outcome in outcomes]
    return {status: found.count(status) for status in reversed(_ORDER)}
