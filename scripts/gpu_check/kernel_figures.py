"""What times of kernels mean: fractions of the bandwidth, bytes per clock, which form wins where.

A timing is an object of kernel_child's output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Any

Timing = dict[str, Any]
Found = dict[str, Any]
_VECTOR, _PRODUCT = "vector", "product"


def seconds(timing: Timing) -> float:
    """Of one launch: the median."""
    return float(median(timing["us"])) / 1e6


def bytes_per_s(timing: Timing) -> float:
    return float(timing["bytes"]) / seconds(timing)


def bytes_per_clock(timing: Timing, device: Found) -> float:
    """Of each multiprocessor that the program may use, at the clock that CUDA states."""
    clocks = seconds(timing) * device["clock_khz"] * 1e3 * device["multiprocessors"]
    return float(timing["bytes"] / clocks)


def tflops(timing: Timing) -> float:
    return float(timing["flops"]) / seconds(timing) / 1e12


def chosen(
    timings: Iterable[Timing], of: Callable[[Timing], Any] = lambda timing: timing["name"]
) -> dict[Any, Timing]:
    """The fastest timing of each key."""
    best: dict[Any, Timing] = {}
    for timing in timings:
        key = of(timing)
        if key not in best or seconds(timing) < seconds(best[key]):
            best[key] = timing
    return best


def of_kind(timings: Iterable[Timing], kind: str, n_tokens: int | None = None) -> list[Timing]:
    return [t for t in timings if t["kind"] == kind and n_tokens in (None, t["tokens"])]


@dataclass(frozen=True)
class Crossing:
    """Which form computes a number of tokens faster: the ratio of the forms' best times.

    ratio: product over vector, geometric mean of the matrices of this type; above 1 the vector
        form is the faster one.
    """

    type: str
    tokens: int
    ratio: float


def crossings(timings: Sequence[Timing]) -> list[Crossing]:
    """By type of the weights and number of tokens, where both forms were timed."""

    def key(timing: Timing) -> tuple[str, str, int]:
        return timing["type"], timing["name"], timing["tokens"]

    vector = chosen(of_kind(timings, _VECTOR), key)
    product = chosen(of_kind(timings, _PRODUCT), key)
    ratios: dict[tuple[str, int], list[float]] = {}
    for known in vector.keys() & product.keys():
        ratio = seconds(product[known]) / seconds(vector[known])
        ratios.setdefault((known[0], known[2]), []).append(log(ratio))
    return [
        Crossing(name, tokens, exp(sum(logs) / len(logs)))
        for (name, tokens), logs in sorted(ratios.items())
    ]


def suggested_choices(timings: Sequence[Timing]) -> dict[str, int]:
    """Choices of kernels by name, as EngineConfig.kernels and `--kernels` take them.

    vector_tokens of a type: the most tokens up to which the vector form was never slower.
    vector_rows: rows per warp whose times at one token are the least, all matrices together, and
    vector_splits likewise; 0 is the kernel's own choice.
    """
    found: dict[str, int] = {}
    for name, these in _by_type(crossings(timings)).items():
        most = 0
        for crossing in these:
            if crossing.ratio < 1:
                break
            most = crossing.tokens
        found[f"vector_tokens_{name}"] = most
    single = of_kind(timings, _VECTOR, 1)
    for choice, parameter in (("vector_rows", "rows_per_warp"), ("vector_splits", "splits")):
        if (best := _best_value(single, parameter)) is not None:
            found[choice] = best
    return found


def _by_type(found: Iterable[Crossing]) -> dict[str, list[Crossing]]:
    by_type: dict[str, list[Crossing]] = {}
    for crossing in found:
        by_type.setdefault(crossing.type, []).append(crossing)
    return by_type


def _best_value(timings: Sequence[Timing], parameter: str) -> int | None:
    """The value with the least sum of times; only matrices that were timed with all values."""
    values: list[int] = sorted({timing[parameter] for timing in timings})
    best = chosen(timings, lambda timing: (timing["name"], timing[parameter]))
    names = {name for name, _ in best}
    whole = [name for name in names if all((name, value) in best for value in values)]
    if not whole:
        return None
    return min(values, key=lambda value: sum(seconds(best[name, value]) for name in whole))


def large_ones(timings: Sequence[Timing]) -> Iterator[Timing]:
    """Of each large matrix times one token the fastest launch."""
    yield from chosen(t for t in of_kind(timings, _VECTOR, 1) if t["large"]).values()


def choices_text(choices: dict[str, int]) -> str:
    return ",".join(f"{name}={value}" for name, value in choices.items())
