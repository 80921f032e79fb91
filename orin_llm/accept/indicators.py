"""The seven indicators: what each one asks, and what it is judged by."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from orin_llm.errors import UsageError

Sign = Literal["<", "≤", ">", "≥"]
_COMPARED: dict[Sign, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "≤": operator.le,
    ">": operator.gt,
    "≥": operator.ge,
}


@dataclass(frozen=True)
class Criterion:
    """A figure that a limit is set for.

    Attributes:
        name: in files of thresholds and in reports, with its unit.
        title: for people.
        sign: what the figure must be of its limit.
        unit: "" where it has none.
        most: the highest limit that makes sense.
    """

    name: str
    title: str
    sign: Sign
    unit: str
    most: float = 1e9

    def holds(self, value: float, limit: float) -> bool:
        """Whether a figure is within its limit; NaN never is."""
        return _COMPARED[self.sign](value, limit)


@dataclass(frozen=True)
class Indicator:
    """One line of the check.

    Attributes:
        number: 1 … 7, as `--only` names it.
        name: the same, as a word: of its shape in a file of thresholds, and of its evidence.
        title: for people.
    """

    number: int
    name: str
    title: str
    criteria: tuple[Criterion, ...]


INDICATORS = (
    Indicator(
        1,
        "ttft",
        "TTFT is the same from request to request",
        (Criterion("ttft_std_ms", "standard deviation of TTFT", "<", "ms"),),
    ),
    Indicator(
        2,
        "growth",
        "TPOT does not grow with the answer",
        (Criterion("tpot_growth_ms", "growth of TPOT", "<", "ms"),),
    ),
    Indicator(
        3,
        "load",
        "prefill uses the GPU, and memory is left",
        (
            Criterion("prefill_gpu_percent", "GPU in prefill", ">", "%", 100),
            Criterion("memory_percent", "memory in use", "<", "%", 100),
        ),
    ),
    Indicator(
        4,
        "pages",
        "pages stay where they are",
        (Criterion("hit_rate_percent", "page hit rate", "≥", "%", 100),),
    ),
    Indicator(
        5,
        "rope",
        "no look-up outside of the RoPE tables",
        (Criterion("rope_out_of_bounds", "look-ups out of bounds", "≤", ""),),
    ),
    Indicator(
        6,
        "perplexity",
        "quantizing cost little",
        (Criterion("ppl_ratio", "perplexity over the reference's", "≤", ""),),
    ),
    Indicator(
        7,
        "throughput",
        "requests get through",
        (Criterion("requests_per_s", "requests a second", "≥", "/s"),),
    ),
)
CRITERIA = {criterion.name: criterion for one in INDICATORS for criterion in one.criteria}


def chosen(only: str | None) -> tuple[Indicator, ...]:
    """The indicators that `1,4` or `ttft,pages` names, in their order; None: all.

    Raises:
        UsageError: there is no such indicator, or none is named.
    """
    if only is None:
        return INDICATORS
    wanted = {word.strip() for word in only.split(",") if word.strip()}
    known = {name: one for one in INDICATORS for name in (str(one.number), one.name)}
    unknown = sorted(wanted - known.keys())
    if unknown or not wanted:
        names = ", ".join(f"{one.number} ({one.name})" for one in INDICATORS)
        what = f"no indicator {', '.join(unknown)}" if unknown else "no indicator is named"
        raise UsageError(f"--only {only!r}: {what}: there are {names}")
    return tuple(one for one in INDICATORS if {str(one.number), one.name} & wanted)
