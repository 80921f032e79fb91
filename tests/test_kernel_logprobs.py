"""The kernel finds the log-probabilities that cpp/sampling finds, of the rows that ask for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_calls import Kernels
from sampling_rows import SHAPES, SIZES, logits_of
from sampling_support import Logits

from orin_llm._native import SamplingWorkspace

BAD_LOGITS, NOT_WRITTEN = -1, -9


def assert_same_logprobs(
    kernels: Kernels,
    rows: Sequence[Logits],
    tokens: Sequence[int],
    n_top: Sequence[int],
    order: int = 2,
) -> None:
    """`n_top` is of each row; below 0 nothing must be written."""
    n_vocab = len(rows[0])
    logits = np.full((len(rows), n_vocab + 1), np.nan, np.float32)
    logits[:, :n_vocab] = rows
    kernels.set_seed(seed=order)
    all_ids, all_logprobs = kernels.logprobs(
        logits=logits, n_vocab=n_vocab, tokens=np.array(tokens, np.int32), n_top=list(n_top)
    )
    for row, token, n, ids, logprobs in zip(
        rows, tokens, n_top, all_ids, all_logprobs, strict=True
    ):
        expected = [] if n < 0 else SamplingWorkspace(n_vocab).top_logprobs(row, n=n, chosen=token)
        n_written = len(expected)
        assert ids[:n_written].tolist() == [likely for likely, _ in expected]
        np.testing.assert_allclose(
            logprobs[:n_written], [value for _, value in expected], 1e-6, 1e-6
        )
        assert (ids[n_written:] == NOT_WRITTEN).all() and np.isnan(logprobs[n_written:]).all()


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SIZES), st.sampled_from(SHAPES), st.data())
def test_any_row_gives_the_log_probabilities_of_the_reference(
    kernels: Kernels, n_vocab: int, shape: str, data: st.DataObject
) -> None:
    row = logits_of(shape, n_vocab, data.draw(st.integers(0, 1 << 32)))
    token = data.draw(st.integers(0, n_vocab - 1))
    n_top = data.draw(st.integers(0, min(20, n_vocab)))
    assert_same_logprobs(kernels, [row], [token], [n_top], data.draw(st.integers(0, 9)))


def test_large_vocabularies_give_the_log_probabilities_of_the_reference(kernels: Kernels) -> None:
    assert_same_logprobs(kernels, [logits_of("few values", 128_256)], [128_255], [20])
    rows = [logits_of(shape, 10_000) for shape in ("equal", "normal")]
    assert_same_logprobs(kernels, rows, [9_999, 0], [20, 20])


def test_each_row_gets_as_many_as_it_asks_for(kernels: Kernels) -> None:
    rows = [logits_of("normal", 3000, seed) for seed in range(5)]
    assert_same_logprobs(kernels, rows, [3, 2999, 0, 7, 7], [-1, 20, 0, -1, 3])


def test_a_row_without_a_token_has_no_log_probabilities(kernels: Kernels) -> None:
    rows = np.stack([np.full(3, np.nan, np.float32), logits_of("normal", 3)])
    ids, logprobs = kernels.logprobs(
        logits=rows, n_vocab=3, tokens=np.array([BAD_LOGITS, 1], np.int32), n_top=[1, 1]
    )
    assert ids[:, :3].tolist() == [[NOT_WRITTEN] * 3, [int(rows[1].argmax()), 1, NOT_WRITTEN]]
    assert np.isnan(logprobs[0]).all() and np.isfinite(logprobs[1, :2]).all()
