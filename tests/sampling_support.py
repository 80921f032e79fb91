"""Rows for the sampling tests, and the comparison with the float64 rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sampling_float64 import NO_CHANGES, UNIT, Changes, Rule, expected

from orin_llm._native import SamplingParams, SamplingRow, SamplingWorkspace

Logits = NDArray[np.float32]


def params(rule: Rule, seed: int = 0) -> SamplingParams:
    return SamplingParams(**vars(rule), seed=seed)


def row(logits: Logits, rule: Rule, changes: Changes = NO_CHANGES, seed: int = 0) -> SamplingRow:
    mask = None
    if changes.allowed is not None:
        bits = np.packbits(changes.allowed, bitorder="little")
        mask = np.pad(bits, (0, -len(bits) % 4)).view("<u4").astype(np.uint32)
    return SamplingRow(
        params(rule, seed),
        logits,
        recent=list(changes.recent),
        bias=list(changes.bias.items()),
        mask=mask,
    )


def candidates(
    logits: Logits, rule: Rule, changes: Changes = NO_CHANGES
) -> tuple[list[int], NDArray[np.float64]]:
    """The tokens that can be drawn and their weights, 1 for the row's likeliest."""
    ids, weights = SamplingWorkspace(len(logits)).candidates(row(logits, rule, changes))
    return list(ids), weights * UNIT


def assert_follows_the_rule(logits: Logits, rule: Rule, changes: Changes = NO_CHANGES) -> None:
    """The candidates are the rule's, but for ties; their probabilities are, but for rounding."""
    ids, weights = candidates(logits, rule, changes)
    assert ids and ids == sorted(set(ids))
    assert (weights > 0).all()
    wanted = expected(logits, rule, changes)
    got = np.zeros(len(logits))
    got[ids] = weights
    for token in np.flatnonzero((got > 0) != (wanted.weights > 0)):
        assert wanted.is_tie[token], (token, got[token], wanted.weights[token])
    both = (got > 0) & (wanted.weights > 0)
    if not both.any():  # the likeliest tie in float32, and another one of them is drawn
        return
    error = np.abs(got[both] - wanted.weights[both])
    assert (error <= wanted.weight_error * wanted.weights[both] + UNIT).all()
    probability = got[both] / got[both].sum()
    exact = wanted.weights[both] / wanted.weights[both].sum()
    units = UNIT * (1 + both.sum() * exact) / wanted.weights[both].sum()
    assert (np.abs(probability - exact) <= 2 * wanted.weight_error * exact + units).all()
