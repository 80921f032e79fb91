"""Whether a token takes longer the more of them there are, and how even they come."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import mean, median, pstdev

from checking.checkout import python
from checking.steps import Found
from gpu_check.steps import Context

_WINDOW = 31  # gaps: those between the first 32 tokens
_RUNS = 3


def growth(shape: str, context: Context) -> Found:
    """The step: an answer of many tokens, some times."""
    n_tokens = context.sizes.growth
    arguments = (str(context.model(shape)), str(n_tokens), str(_RUNS), context.threads)
    runs = json.loads(context.need(python("gpu_check.answer_child", *arguments)).out)["itl_ms"]
    figures = [growth_of(gaps) for gaps in runs]
    medians = {name: median(one[name] for one in figures) for name in figures[0]}
    return {"tokens": n_tokens, "runs": _RUNS, **medians, "itl_ms": runs}


def growth_of(gaps_ms: Sequence[float]) -> dict[str, float]:
    """Of the gaps between an answer's tokens.

    tpot_first_ms, tpot_last_ms: the mean of the first 31 gaps, and of the last.
    growth: last over first, less 1.
    deviation: the standard deviation of all gaps over their mean.
    """
    first, last = mean(gaps_ms[:_WINDOW]), mean(gaps_ms[-_WINDOW:])
    return {
        "tpot_first_ms": first,
        "tpot_last_ms": last,
        "growth": last / first - 1,
        "deviation": pstdev(gaps_ms) / mean(gaps_ms),
    }
