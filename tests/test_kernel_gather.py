"""Pages made contiguous, and the mask over them: what llama.cpp's flash attention reads."""

from __future__ import annotations

import numpy as np
import pytest
from attention_cases import PAGE_SIZES, Model, Sequence, make_step, pool, small_models
from attention_float64 import decode
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_calls import KernelFailed, Kernels
from numpy.typing import NDArray

UNUSED = 1 << 30  # a place behind all

# Of each sequence: its length, where the gathering begins (in eights), and room behind it.
spans = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=3
)


def segments_of(spans: list[tuple[int, int, int]]) -> tuple[NDArray[np.int32], int]:
    """[n, (place, row, begin, end)], the last one unused, and the number of positions."""
    place, found = 0, []
    for row, (length, eights, room) in enumerate(spans):
        begin = min(8 * eights, (length - 1) // 8 * 8)
        found.append((place, row, begin, length))
        place += -(-(length - begin) // 8) * 8 + 8 * room
    return np.array([*found, (UNUSED, 0, 0, 0)], np.int32), place


@settings(max_examples=40)
@given(
    model=small_models(), spans=spans, page_size=st.sampled_from(PAGE_SIZES), pad=st.integers(0, 1),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_sequences_become_one_piece_with_zeros_where_there_is_none(
    kernels: Kernels, model: Model, spans: list[tuple[int, int, int]], page_size: int, pad: int,
    seed: int,
) -> None:  # fmt: skip
    plain = Model(
        model.n_head_kv, 1, model.head_dim_k, model.head_dim_v, model.k_type, model.v_type
    )
    step = make_step(plain, [Sequence(n - 1, 1) for n, _, _ in spans], page_size, seed)
    segments, n_positions = segments_of(spans)
    kernels.set_seed(seed=seed)
    found = kernels.kv_gather(
        fields=pool(step), segments=segments, n_positions=n_positions, pad=pad
    )
    for result, stored, kv_type in zip(
        found, (step.k, step.v), (model.k_type, model.v_type), strict=True
    ):
        dim = result.shape[2] - 8 * pad
        expected = np.zeros((n_positions, model.n_head_kv, dim), np.float16)
        for place, row, begin, end in segments[:-1]:
            values = decode(stored[step.cells(row)[begin:end]], kv_type)
            expected[place : place + end - begin] = values.reshape(-1, model.n_head_kv, dim)
        np.testing.assert_array_equal(result[:, : model.n_head_kv, :dim], expected)
        assert np.isnan(result[:, model.n_head_kv :]).all()
        assert np.isnan(result[:, :, dim:]).all()


@settings(max_examples=60)
@given(
    spans=spans, window=st.sampled_from([0, 1, 7, 20]), seed=st.integers(0, 99),
    n_tokens=st.integers(1, 9),
)  # fmt: skip
def test_a_token_sees_what_is_before_it_in_its_own_sequence(
    kernels: Kernels, spans: list[tuple[int, int, int]], window: int, seed: int, n_tokens: int
) -> None:
    segments, n_positions = segments_of(spans)
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, len(spans), n_tokens).astype(np.int32)
    positions = np.array([rng.integers(-1, spans[row][0]) for row in rows], np.int32)
    kernels.set_seed(seed=seed)
    found = kernels.kv_mask(
        segments=segments, n_positions=n_positions, rows=rows, positions=positions, window=window
    )
    for token, (row, position) in enumerate(zip(rows, positions, strict=True)):
        place, _, begin, end = segments[row]
        at = np.arange(n_positions) - place + begin
        seen = (np.arange(n_positions) >= place) & (at < end) & (at <= position)
        if window:
            seen &= at > position - window
        np.testing.assert_array_equal(found[token], np.where(seen, 0, -np.inf))


@pytest.mark.parametrize("wrong", [{"n_positions": 12}, {"page_size": 4}])
def test_a_gather_that_is_not_covered_is_refused(kernels: Kernels, wrong: dict[str, int]) -> None:
    step = make_step(Model(1, 1, 32, 32, "f16", "f16"), [Sequence(10, 1)], 8, 14)
    segments = np.array([(0, 0, 0, 11)], np.int32)
    kernels.kv_gather(fields=pool(step), segments=segments, n_positions=16, pad=0)
    fields = pool(step, **{k: v for k, v in wrong.items() if k == "page_size"})
    n_positions = wrong.get("n_positions", 16)
    with pytest.raises(KernelFailed, match="kv_gather: invalid argument"):
        kernels.kv_gather(fields=fields, segments=segments, n_positions=n_positions, pad=0)


@pytest.mark.parametrize("wrong", [{"n_positions": 12}, {"window": -1}])
def test_a_mask_that_is_not_covered_is_refused(kernels: Kernels, wrong: dict[str, int]) -> None:
    segments = np.array([(0, 0, 0, 11)], np.int32)
    row = np.zeros(1, np.int32)
    asked = {"n_positions": 16, "window": 0, **wrong}
    with pytest.raises(KernelFailed, match="kv_mask: invalid argument"):
        kernels.kv_mask(segments=segments, rows=row, positions=row, **asked)
