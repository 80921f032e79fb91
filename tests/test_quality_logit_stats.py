"""What rows of logits say, beside NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from orin_llm import _native
from orin_llm.errors import OrinError

THREADS = 3


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    x = logits.astype(np.float64)
    x = x - x.max(axis=1, keepdims=True)
    result: NDArray[np.float64] = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return result


def rows(seed: int, n: int = 7, n_vocab: int = 501, scale: float = 4.0) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).normal(0, scale, (n, n_vocab)) + 30).astype(np.float32)


def tokens_for(logits: NDArray[np.float32]) -> NDArray[np.int32]:
    n, n_vocab = logits.shape
    return np.random.default_rng(9).integers(0, n_vocab, n).astype(np.int32)


@settings(max_examples=40)
@given(st.integers(1, 9), st.integers(1, 70), st.floats(0.01, 60), st.integers(0, 999))
def test_nll_and_divergence_are_those_of_float64(
    n: int, n_vocab: int, scale: float, seed: int
) -> None:
    reference = rows(seed, n, n_vocab, scale)
    logits = reference + rows(seed + 1, n, n_vocab, scale / 10) - 30
    tokens = tokens_for(logits)
    found = _native.compare_rows(reference, logits, tokens, n_threads=THREADS)
    p, q = log_softmax(reference), log_softmax(logits)
    each = np.arange(n)
    np.testing.assert_allclose(found["nll"], -q[each, tokens], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["reference_nll"], -p[each, tokens], rtol=1e-12, atol=1e-12)
    divergence = (np.exp(p) * (p - q)).sum(axis=1)
    np.testing.assert_allclose(found["kl_divergence"], divergence, rtol=1e-9, atol=1e-12)
    apart = np.abs(reference.astype(np.float64) - logits).max(axis=1)
    np.testing.assert_allclose(found["max_logit"], apart, rtol=1e-12)
    same = reference.argmax(axis=1) == logits.argmax(axis=1)
    assert (found["same_top"] == same).all()
    alone = _native.token_nlls(logits, tokens, n_threads=1)
    np.testing.assert_array_equal(alone, found["nll"])


def test_a_model_differs_in_nothing_from_itself() -> None:
    logits = rows(1)
    found = _native.compare_rows(logits, logits, tokens_for(logits), n_threads=THREADS)
    assert (found["kl_divergence"] == 0).all() and (found["max_logit"] == 0).all()
    assert found["same_top"].all()


def test_of_equal_logits_the_lowest_token_is_the_top() -> None:
    reference = np.array([[1.0, 3.0, 3.0], [3.0, 1.0, 3.0]], np.float32)
    logits = np.array([[1.0, 9.0, 2.0], [1.0, 1.0, 9.0]], np.float32)
    found = _native.compare_rows(reference, logits, np.array([0, 0], np.int32), n_threads=1)
    assert found["same_top"].tolist() == [True, False]


def test_tokens_that_both_models_rule_out_add_nothing_to_the_divergence() -> None:
    reference = np.array([[0.0, -np.inf, 1.0]], np.float32)
    found = _native.compare_rows(reference, reference, np.array([2], np.int32), n_threads=1)
    assert found["kl_divergence"] == 0 and found["max_logit"] == 0
    found = _native.compare_rows(
        np.zeros((1, 3), np.float32), reference, np.array([2], np.int32), n_threads=1
    )
    assert found["kl_divergence"] == np.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_an_error(bad: float) -> None:
    good, logits = rows(1), rows(1)
    logits[3, 5] = bad
    tokens = tokens_for(good)
    for compute in (
        lambda: _native.token_nlls(logits, tokens, n_threads=THREADS),
        lambda: _native.compare_rows(good, logits, tokens, n_threads=THREADS),
        lambda: _native.compare_rows(logits, good, tokens, n_threads=THREADS),
        lambda: _native.encode_rows(logits, n_threads=THREADS),
    ):
        with pytest.raises(OrinError, match="not numbers"):
            compute()
    logits[:] = -np.inf
    with pytest.raises(OrinError, match="not numbers"):
        _native.token_nlls(logits, tokens, n_threads=THREADS)


def test_rows_and_tokens_have_to_fit() -> None:
    logits = rows(1)
    tokens = tokens_for(logits)
    with pytest.raises(ValueError, match="tokens"):
        _native.token_nlls(logits, tokens[:-1], n_threads=1)
    with pytest.raises(ValueError, match="501"):
        _native.compare_rows(logits[:, :-1].copy(), logits, tokens, n_threads=1)
    for token in (-1, logits.shape[1]):
        tokens[2] = token
        with pytest.raises(ValueError, match="vocabulary"):
            _native.token_nlls(logits, tokens, n_threads=1)


def decoded(encoded: NDArray[np.uint16], n_vocab: int) -> NDArray[np.float64]:
    head = encoded[:, :4].copy().view(np.float32).astype(np.float64)
    words: NDArray[np.float64] = encoded[:, 4 : 4 + n_vocab].astype(np.float64)
    return words * head[:, :1] + head[:, 1:]


@pytest.mark.parametrize("n_vocab", [500, 501])
def test_encoded_rows_hold_log_probabilities_to_a_step(n_vocab: int) -> None:
    logits = rows(2, n_vocab=n_vocab)
    encoded = _native.encode_rows(logits, n_threads=THREADS)
    assert encoded.shape == (7, _native.encoded_words(n_vocab)) == (7, 4 + (n_vocab + 1) // 2 * 2)
    wanted = log_softmax(logits)
    wanted = np.maximum(wanted, wanted.max(axis=1, keepdims=True) - 16)
    steps = encoded[:, :2].copy().view(np.float32)
    assert (steps <= 16 / 65535 * (1 + 1e-6)).all()
    assert (np.abs(decoded(encoded, n_vocab) - wanted) <= steps * 0.51 + 1e-5).all()
    assert (encoded[:, 4 + n_vocab :] == 0).all()


def test_a_comparison_with_encoded_rows_is_that_of_what_they_hold() -> None:
    reference, logits = rows(3), rows(3) + rows(4, scale=0.3) - 30
    tokens = tokens_for(logits)
    encoded = _native.encode_rows(reference, n_threads=1)
    found = _native.compare_encoded(encoded, logits, tokens, n_threads=THREADS)
    p, q, each = decoded(encoded, 501), log_softmax(logits), np.arange(7)
    counted = np.where(p > -16, np.exp(p) * (p - q), 0).sum(axis=1)
    np.testing.assert_allclose(found["kl_divergence"], counted, rtol=1e-9)
    np.testing.assert_allclose(found["reference_nll"], -p[each, tokens], rtol=1e-9)
    np.testing.assert_allclose(found["nll"], -q[each, tokens], rtol=1e-12)
    assert (found["same_top"] == (p.argmax(axis=1) == q.argmax(axis=1))).all()
    assert np.isnan(found["max_logit"]).all()
    exact = _native.compare_rows(reference, logits, tokens, n_threads=1)
    np.testing.assert_allclose(found["kl_divergence"], exact["kl_divergence"], atol=1e-3)


def test_a_flat_row_is_encoded_as_one_value() -> None:
    flat = np.full((1, 8), 2.5, np.float32)
    encoded = _native.encode_rows(flat, n_threads=1)
    np.testing.assert_allclose(decoded(encoded, 8), -np.log(8), rtol=1e-6)


def test_encoded_rows_that_are_damaged_are_an_error() -> None:
    logits = rows(3)
    encoded = _native.encode_rows(logits, n_threads=1)
    encoded[2, :2] = np.array([np.nan], np.float32).view(np.uint16)
    with pytest.raises(OrinError, match="reference"):
        _native.compare_encoded(encoded, logits, tokens_for(logits), n_threads=THREADS)
