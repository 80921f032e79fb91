"""RMSNorm and the rows of activations as one kernel, against float64."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from activation_rows import F16, F32, INT8, assert_rows, read_rows, write_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_calls import KernelFailed, Kernels
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FORMATS = (F32, INT8, F16)
NONE = -1


def norm(x: NDArray[np.floating], eps: float) -> Floats:
    wide = x.astype(np.float64)
    result: Floats = wide / np.sqrt(
        np.mean(wide**2, axis=1, keepdims=True) + float(np.float32(eps))
    )
    return result


def call(kernels: Kernels, x: Any, n_values: int | None = None, **other: Any) -> Any:
    defaults = {
        "residual": None,
        "post_weight": None,
        "post_eps": 0.0,
        "weight": None,
        "eps": 0.0,
        "sum": "",
        "normed": False,
        "format": NONE,
        "prefetched": np.zeros(0, np.uint8),
        "offset": 0,
    }
    n_values = x.shape[1] if n_values is None else n_values
    return kernels.prepare_rows(x=x, n_values=n_values, **(defaults | other))


def random_x(seed: int, n_tokens: int, n_values: int) -> Any:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-3, 3, (n_tokens, 1))
    return (rng.standard_normal((n_tokens, n_values)) * scale).astype(np.float32)


def random_weight(seed: int, n_values: int) -> Any:
    return np.random.default_rng(seed).uniform(-2, 2, n_values).astype(np.float32)


@pytest.mark.parametrize("row_format", FORMATS)
@pytest.mark.parametrize(
    ("n_tokens", "n_values"),
    [(1, 32), (3, 576), (2, 4096), (17, 544), (1, 4128), (1, 12288), (1, 16416)],
    ids=["one group", "narrow", "a quad each", "more tokens", "two quads", "four", "read again"],
)
def test_rows_are_normalised(
    kernels: Kernels, row_format: int, n_tokens: int, n_values: int
) -> None:
    x, weight = random_x(n_values, n_tokens, n_values), random_weight(1, n_values)
    kernels.set_seed(seed=n_values + row_format)
    _, normed, rows = call(kernels, x, weight=weight, eps=1e-5, normed=True, format=row_format)
    exact = norm(x, 1e-5) * weight
    np.testing.assert_allclose(normed, exact, rtol=1e-6)
    assert_rows(rows, row_format, exact)
    assert_rows(rows, row_format, normed.astype(np.float64), inexact=0)
    if row_format == F16:
        largest = np.abs(rows[:, :-16].view("<f2").astype(np.float64)).max(axis=1)
        assert ((largest >= 2**14) & (largest <= 2**15)).all()


@settings(max_examples=15)
@given(
    groups=st.integers(1, 40),
    n_tokens=st.integers(1, 20),
    padding=st.integers(0, 3),
    row_format=st.sampled_from(FORMATS),
    has_norm=st.booleans(),
    seed=st.integers(0, 9),
)
def test_rows_of_any_size_and_stride_are_read(
    kernels: Kernels,
    groups: int,
    n_tokens: int,
    padding: int,
    row_format: int,
    has_norm: bool,
    seed: int,
) -> None:
    n_values = 32 * groups
    wide = random_x(seed, n_tokens, n_values + 4 * padding)
    x = wide[:, 4 * padding :]
    weight = random_weight(seed, n_values)
    kernels.set_seed(seed=seed)
    _, _, rows = call(
        kernels, wide, n_values, weight=weight if has_norm else None, eps=1e-6,
        format=row_format, offset=4 * padding,
    )  # fmt: skip
    exact = norm(x, 1e-6) * weight if has_norm else x.astype(np.float64)
    assert_rows(rows, row_format, exact)


@pytest.mark.parametrize("row_format", FORMATS)
@pytest.mark.parametrize("n_values", [96, 5120, 16416])
def test_without_a_norm_values_are_rounded_once(
    kernels: Kernels, row_format: int, n_values: int
) -> None:
    x = random_x(n_values, 1, n_values)
    _, _, rows = call(kernels, x, format=row_format)
    np.testing.assert_allclose(
        read_rows(rows, row_format), read_rows(write_rows(x, row_format), row_format), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("where", "n_values"),
    [
        ("own", 64),
        ("x", 4128),
        ("residual", 4128),
        ("own", 12288),
        ("x", 16416),
        ("residual", 16416),
    ],
)
def test_a_norm_behind_a_product_is_added_to_the_residual(
    kernels: Kernels, where: str, n_values: int
) -> None:
    x, residual = random_x(1, 2, n_values), random_x(2, 2, n_values)
    post_weight, weight = random_weight(3, n_values), random_weight(4, n_values)
    kernels.set_seed(seed=n_values)
    sums, normed, rows = call(
        kernels, x, residual=residual, post_weight=post_weight, post_eps=1e-3,
        weight=weight, eps=1e-5, sum=where, normed=True, format=INT8,
    )  # fmt: skip
    exact_sum = residual + norm(x, 1e-3) * post_weight
    size = np.abs(residual) + np.abs(norm(x, 1e-3) * post_weight)
    assert (np.abs(sums - exact_sum) <= 1e-6 * size).all()
    exact = norm(sums, 1e-5) * weight
    np.testing.assert_allclose(normed, exact, rtol=2e-6)
    assert_rows(rows, INT8, exact, inexact=2e-6)


@pytest.mark.parametrize("n_values", [64, 16416])
def test_a_residual_is_added_without_a_norm_of_its_own(kernels: Kernels, n_values: int) -> None:
    x, wide = random_x(1, 3, n_values), random_x(2, 3, n_values + 8)
    weight = random_weight(4, n_values)
    sums, normed, rows = call(
        kernels, x, residual=wide, weight=weight, eps=1e-5, sum="own", normed=True
    )
    np.testing.assert_array_equal(sums, x + wide[:, :n_values])
    np.testing.assert_allclose(normed, norm(sums, 1e-5) * weight, rtol=1e-6)
    assert (rows == 0xFF).all()
    sums, normed, _ = call(kernels, x, residual=wide, sum="own", format=F16)
    np.testing.assert_array_equal(sums, x + wide[:, :n_values])
    assert np.isnan(normed).all()


@pytest.mark.parametrize("row_format", FORMATS)
def test_zeros_are_zeros(kernels: Kernels, row_format: int) -> None:
    x = np.zeros((2, 128), np.float32)
    x[1, 40] = 1e-44  # a group whose scale would be no normal number
    for weight in (None, random_weight(1, 128)):
        _, _, rows = call(kernels, x, weight=weight, eps=1e-5, format=row_format)
        found = read_rows(rows, row_format)
        assert (np.abs(found) <= 1e-40).all()
        if row_format == INT8:
            assert (rows[:, :128] == 0).all() and (rows[:, 128:] == 0).all()


@pytest.mark.parametrize("row_format", FORMATS)
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 47, 16415])
def test_what_is_no_number_does_not_become_one(
    kernels: Kernels, row_format: int, bad: float, at: int
) -> None:
    """An int8 group is lost as a whole: its scale is what is not finite."""
    n_values = 16416 if at > 100 else 96
    x = random_x(5, 2, n_values)
    x[0, at] = bad
    _, _, rows = call(kernels, x, format=row_format)
    with np.errstate(invalid="ignore"):
        found = read_rows(rows, row_format)
    assert not np.isfinite(found[0, at]) and np.isfinite(found[1]).all()
    if row_format == INT8:
        sums = rows[0, n_values:].view("<f4").reshape(-1, 4)[at // 32, 1:3]
        assert np.isnan(sums).all()
    elif np.isinf(bad):
        assert found[0, at] == bad


def test_a_norm_of_a_row_with_nan_is_nan(kernels: Kernels) -> None:
    x, weight = random_x(5, 2, 96), random_weight(1, 96)
    x[0, 7] = np.nan
    for row_format in FORMATS:
        _, _, rows = call(kernels, x, weight=weight, eps=1e-5, format=row_format)
        found = read_rows(rows, row_format)
        assert np.isnan(found[0]).all() and np.isfinite(found[1]).all()


@pytest.mark.parametrize("row_format", FORMATS)
def test_values_near_the_ends_of_float_are_kept(kernels: Kernels, row_format: int) -> None:
    x = random_x(6, 3, 64)
    x *= np.array([[1e30], [1e-30], [1]], np.float32)
    x[0, 0] = 3.4e38
    _, _, rows = call(kernels, x, format=row_format)
    assert_rows(rows, row_format, x.astype(np.float64))


@pytest.mark.parametrize("n_bytes", [1, 288, 5000, 40_000])
def test_what_is_to_be_prefetched_is_asked_for_once(kernels: Kernels, n_bytes: int) -> None:
    """Every 32 bytes of both ranges; outside of them nothing, which the emulation would notice."""
    x, weight = random_x(1, 2, 64), random_weight(1, 64)
    alone = call(kernels, x, weight=weight, eps=1e-5, format=INT8)
    kernels.emulated_counters()
    both = call(
        kernels, x, weight=weight, eps=1e-5, format=INT8, prefetched=np.zeros(n_bytes, np.uint8)
    )
    np.testing.assert_array_equal(alone[2], both[2])
    if counted := kernels.emulated_counters():
        first = n_bytes // 3
        expected = -(-first // 32) + -(-(n_bytes - first) // 32)
        assert json.loads(counted)["prefetches"] == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_values": 48},
        {"n_values": 0},
        {"offset": 1},
        {"post_weight": np.ones(64, np.float32)},
        {"sum": "own"},
        {"residual": np.ones((2, 66), np.float32)},
    ],
)
def test_what_does_not_fit_is_refused(kernels: Kernels, wrong: dict[str, Any]) -> None:
    with pytest.raises(KernelFailed, match="invalid argument"):
        call(kernels, random_x(1, 2, 64), **({"format": F32} | wrong))
