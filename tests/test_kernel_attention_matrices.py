"""Paged attention by matrix products: what it alone has, against float64."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from attention_calls import MATRIX_TYPES, TOLERANCE, attend
from attention_cases import Model, Sequence, error, make_step, small_models
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=12)
@given(
    model=small_models(MATRIX_TYPES), past=st.integers(0, 150), n_new=st.integers(2, 16),
    seed=st.integers(0, 99), n_splits=st.sampled_from((1, 2, 5)), together=st.integers(2, 64),
)  # fmt: skip
def test_several_queries_of_a_sequence_share_what_they_read(
    kernels, model, past, n_new, seed, n_splits, together
):
    step = make_step(model, [Sequence(past, n_new), Sequence(past // 2, 1)], 16, seed)
    together = max(1, min(together, 64 // model.group))
    result = attend(kernels, step, n_splits, together, order=seed, form="matrices")
    assert error(result, step.exact()) < TOLERANCE["matrices"]


@pytest.mark.parametrize(
    ("head_dim", "k_type", "v_type"),
    [
        (80, "f16", "f16"),
        *product([32, 64, 96, 128, 192, 256], MATRIX_TYPES, MATRIX_TYPES),
    ],
)
def test_matrix_products_are_right_for_every_head_size(kernels, head_dim, k_type, v_type):
    step = make_step(Model(2, 4, head_dim, head_dim, k_type, v_type), [Sequence(70, 2)], 16, 1)
    result = attend(kernels, step, n_splits=2, tokens_per_block=2, form="matrices")
    assert error(result, step.exact()) < TOLERANCE["matrices"]


@pytest.mark.parametrize(("k_dim", "v_dim"), [(192, 128), (64, 256), (16, 48), (256, 16)])
@pytest.mark.parametrize("group", [1, 16])
def test_k_and_v_may_differ_in_matrix_products(kernels, k_dim, v_dim, group):
    model = Model(1, group, k_dim, v_dim, "f16", "f16", sinks=True)
    step = make_step(model, [Sequence(50, 4)], 8, 2)
    result = attend(kernels, step, n_splits=3, tokens_per_block=2, form="matrices")
    assert error(result, step.exact()) < TOLERANCE["matrices"]


@pytest.mark.parametrize("n_head_kv", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("k_type", ["q8_0", "q4_0"])
@pytest.mark.parametrize("v_type", ["q8_0", "q4_0"])
@pytest.mark.parametrize("head_dim", [64, 96])
def test_heads_of_quantized_rows_may_begin_anywhere(kernels, n_head_kv, k_type, v_type, head_dim):
    # Whole words are copied, 16, 8 or 4 bytes as the rows allow, in which heads begin and end.
    model = Model(n_head_kv, 1, head_dim, head_dim, k_type, v_type)
    step = make_step(model, [Sequence(20, 1)], 8, 3)
    assert error(attend(kernels, step), step.exact()) < TOLERANCE["fastest"]


@pytest.mark.parametrize("exponent", [-60, -1, 7, 60])
def test_queries_may_be_of_any_size_in_matrix_products(kernels, exponent):
    step = make_step(Model(2, 3, 64, 64, "f16", "q8_0"), [Sequence(100, 3)], 16, 9)
    first = attend(kernels, step, 2, form="matrices")
    scaled = replace(
        step,
        q=step.q * np.float32(2.0**exponent),
        scale=float(np.float32(step.scale)) / 2**exponent,
    )
    assert np.array_equal(attend(kernels, scaled, 2, form="matrices"), first)


def test_weights_of_far_less_than_the_largest_count(kernels):
    # One position has a weight of 1, thousands have 2e-6 each: less than any normal number of f16.
    step = make_step(Model(1, 1, 16, 16, "f16", "f16"), [Sequence(4000, 1)], 64, 19)
    step.q[:], step.k[step.cells(0)] = 0.0, 0
    step.q[0, 0, 0] = 13.0 / step.scale
    step.k[step.cells(0)[2000], :2] = np.array([1.0], np.float16).view(np.uint8)
    assert error(attend(kernels, step, 2, form="matrices"), step.exact()) < 1e-5
