"""Drawn tokens reach the next step and the recent ones on the device, and failures no table."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_calls import Kernels
from numpy.typing import NDArray

MANY = settings(max_examples=40, suppress_health_check=list(HealthCheck))


def ints(values: list[int]) -> NDArray[np.int32]:
    return np.array(values, np.int32)


@MANY
@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 1 << 32))
def test_each_row_gets_the_given_token_or_the_last_of_its_sequence(
    kernels: Kernels, n_tokens: int, n_sequences: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    given_tokens = rng.integers(0, 1 << 30, n_tokens)
    sequences = rng.integers(-1, n_sequences, n_tokens)
    last = rng.integers(-2, 1 << 30, n_sequences)
    fed = kernels.feed(given=given_tokens, sequences=sequences, last_drawn=last)
    expected = [
        token if sequence < 0 else max(int(last[sequence]), 0)
        for token, sequence in zip(given_tokens.tolist(), sequences.tolist(), strict=True)
    ]
    assert fed.tolist() == expected


@MANY
@given(st.integers(1, 200), st.integers(0, 9), st.integers(0, 1 << 32))
def test_each_drawn_token_is_the_last_of_its_sequence_and_at_its_slot(
    kernels: Kernels, n_sequences: int, max_recent: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    sequences = rng.permutation(n_sequences)[: rng.integers(1, n_sequences + 1)]
    sequences = np.where(rng.random(len(sequences)) < 0.2, -1, sequences)
    tokens = rng.integers(-2, 1 << 30, len(sequences))
    slots = rng.integers(-1, max_recent, len(sequences))
    last = rng.integers(0, 99, n_sequences).astype(np.int32)
    recent = rng.integers(0, 99, (n_sequences, max_recent)).astype(np.int32)
    new_last, new_recent = kernels.publish(
        tokens=tokens,
        sequences=sequences.tolist(),
        slots=slots.tolist(),
        last_drawn=last,
        recent=recent,
    )
    for token, sequence, slot in zip(tokens, sequences, slots, strict=True):
        if sequence >= 0:
            last[sequence] = token
            if slot >= 0:
                recent[sequence, slot] = token
    np.testing.assert_array_equal(new_last, last)
    np.testing.assert_array_equal(new_recent, recent)


def test_no_tokens_are_no_work(kernels: Kernels) -> None:
    assert kernels.feed(given=ints([]), sequences=ints([]), last_drawn=ints([5])).tolist() == []
    last, recent = kernels.publish(
        tokens=ints([]), sequences=[], slots=[], last_drawn=ints([5]), recent=ints([7])[None]
    )
    assert (last.tolist(), recent.tolist()) == ([5], [[7]])
