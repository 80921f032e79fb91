"""The sampling rule of docs/sampling.md in real numbers, as near as NumPy's float64 comes to them.

The implementation rounds: logits to float32, weights to integers. So a token may fall on the other
side of a filter's threshold than here, but only where it lies within the rounding error of it;
`Expected.is_tie` says whether that is so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WEIGHT_ERROR = 2.0**-22  # of the exponential, relative
UNIT = 2.0**-30  # a weight's last place; the likeliest token weighs 1
LARGEST_ARGUMENT = 22.0  # logits further below the top, in units of the temperature, weigh nothing


@dataclass(frozen=True)
class Rule:
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    order: str = "orin"


@dataclass(frozen=True)
class Changes:
    """What is done to a row's logits before anything else; `allowed` is the mask."""

    recent: Sequence[int] = ()
    bias: Mapping[int, float] = field(default_factory=dict)
    allowed: NDArray[np.bool_] | None = None


NO_CHANGES = Changes()


@dataclass(frozen=True)
class Expected:
    """Weights of the draw, 1 for the likeliest token and 0 for one that is filtered away.

    Attributes:
        weights: [n_vocab]
        weight_error: how far a weight of the implementation may be off, relative.
        is_tie: [n_vocab] where a filter's decision lies within the rounding errors.
    """

    weights: Floats
    weight_error: float
    is_tie: NDArray[np.bool_]


def adjusted(logits: NDArray[np.float32], rule: Rule, changes: Changes) -> Floats:
    """Logits after penalties, bias and mask."""
    result = logits.astype(np.float64)
    tokens, counts = np.unique(np.array(changes.recent, np.int64), return_counts=True)
    old = result[tokens]
    factor = float(np.float32(rule.repeat_penalty))
    new = np.where(old > 0, old / factor, old * factor)
    result[tokens] = new - counts * rule.frequency_penalty - rule.presence_penalty
    for token, value in changes.bias.items():
        result[token] += value
    if changes.allowed is not None:
        result[~changes.allowed] = -np.inf
    return result


def expected(logits: NDArray[np.float32], rule: Rule, changes: Changes) -> Expected:
    """PRECOND: temperature above 0; some logit is left."""
    values = adjusted(logits, rule, changes)
    below = values - values.max()  # ≤ 0
    n_vocab = len(values)
    ranked = np.lexsort((np.arange(n_vocab), -values))
    rank = np.empty(n_vocab, np.int64)
    rank[ranked] = np.arange(n_vocab)

    seen_as = rule.temperature if rule.order == "orin" else 1.0
    finite = np.isfinite(values)
    is_changed = bool(len(changes.recent)) or bool(changes.bias)
    logit_error = 2.0**-22 * max(1.0, np.abs(values[finite]).max()) if is_changed else 0.0
    weight_error = (
        WEIGHT_ERROR + LARGEST_ARGUMENT * 2.0**-22 + logit_error / min(seen_as, rule.temperature)
    )
    kept = np.ones(n_vocab, bool)
    is_tie = np.zeros(n_vocab, bool)

    if 0 < rule.top_k < n_vocab:
        kept = rank < rule.top_k
        if is_changed:
            is_tie |= near(values, values[ranked[rule.top_k - 1]], 2 * logit_error)
    seen = np.exp(below / seen_as)
    if rule.top_p < 1:
        share = np.where(kept, seen, 0.0)[ranked]
        before = np.concatenate([[0.0], np.cumsum(share)[:-1]]) / share.sum()
        # The unit that each token may be off by counts for all of them together.
        error = 2 * weight_error + n_vocab * UNIT / share.sum()
        position = before[rank]
        kept &= (position < rule.top_p) | (rank == 0)
        is_tie |= np.abs(position - rule.top_p) <= error
        if is_changed:  # equal logits may have become different ones, and the other way round
            last = np.flatnonzero(kept[ranked])[-1]
            is_tie |= near(values, values[ranked[last]], 2 * logit_error)
    if rule.min_p > 0:
        kept &= seen >= rule.min_p
        is_tie |= np.abs(seen - rule.min_p) <= weight_error * seen + UNIT
    weights = np.where(kept, np.exp(below / rule.temperature), 0.0)
    is_tie |= np.exp(below / rule.temperature) <= UNIT  # so light that it rounds to nothing
    return Expected(weights, weight_error, is_tie)


def near(values: Floats, value: float, error: float) -> NDArray[np.bool_]:
    return (values >= value - error) & (values <= value + error)
