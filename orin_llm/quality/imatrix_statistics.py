"""What an importance matrix tells of each tensor: which inputs are large, and how unevenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orin_llm.quality.imatrix import Entry, Imatrix

_INACTIVE = 1e-5  # llama.cpp's: a channel with a smaller mean square carries nothing


@dataclass(frozen=True)
class TensorStatistics:
    """Of the mean squares of a tensor's input channels, as llama.cpp's tool defines them.

    Attributes:
        total: their sum, over all matrices that a token went through: the tensor's importance.
        deviation: their standard deviation.
        active: share of the channels above 1e-5.
        entropy: of their distribution over channels: 1 where all are alike, near 0 where one has
            everything.
        outliers: share of the channels that are more than a deviation above the mean.
        matrices: in the tensor; more than 1 for experts.
        unused: matrices that no token went through.
        tokens: that went through the most used matrix.
    """

    name: str
    total: float
    mean: float
    largest: float
    deviation: float
    active: float
    entropy: float
    outliers: float
    matrices: int
    unused: int
    tokens: int


def statistics(imatrix: Imatrix) -> list[TensorStatistics]:
    """Of every tensor that a token went through, the largest total first."""
    chosen = ((n, e) for n, e in imatrix.entries.items() if e.counts.max() > 0)
    found = [_of_entry(name, entry) for name, entry in chosen]
    return sorted(found, key=lambda one: (-one.total, one.name))


def unused_tensors(imatrix: Imatrix) -> list[str]:
    """Tensors with matrices that no token went through: quantizing takes them as all alike."""
    return [name for name, entry in imatrix.entries.items() if not entry.counts.all()]


def _of_entry(name: str, entry: Entry) -> TensorStatistics:
    used = entry.counts > 0
    squares = (entry.sums[used].astype(np.float64) / entry.counts[used, None]).ravel()
    total, mean, deviation = float(squares.sum()), float(squares.mean()), float(squares.std())
    shares = squares[squares > 0] / total if total else np.empty(0)
    bits = -float((shares * np.log2(shares)).sum())
    return TensorStatistics(
        name=name,
        total=total,
        mean=mean,
        largest=float(squares.max()),
        deviation=deviation,
        active=float((squares > _INACTIVE).mean()),
        entropy=bits / float(np.log2(squares.size)) if squares.size > 1 else 1.0,
        outliers=float((squares > mean + deviation).mean()) if deviation else 0.0,
        matrices=entry.counts.size,
        unused=int((~used).sum()),
        tokens=int(entry.counts.max()),
    )
