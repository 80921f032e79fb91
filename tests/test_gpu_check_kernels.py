"""Times of kernels: what is made of them, and that all kernels can be timed."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_check.kernel_figures import (
    bytes_per_clock,
    bytes_per_s,
    crossings,
    large_ones,
    suggested_choices,
    tflops,
)
from gpu_check.kernel_shapes import FULL, Context


def timing(kind: str, us: float, tokens: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind, "name": "8b down", "type": "q4_K", "large": True, "tokens": tokens,
        "rows_per_warp": 1, "splits": 0, "bytes": 33_000_000, "flops": 10**9,
        "us": [us, us, 2 * us], **more,
    }  # fmt: skip


def test_rates_are_of_the_median_time() -> None:
    one = timing("vector", 10.0)
    device = {"clock_khz": 1_000_000, "multiprocessors": 16}
    assert bytes_per_s(one) == pytest.approx(3.3e12)
    assert bytes_per_clock(one, device) == pytest.approx(3.3e12 / 16e9)
    assert tflops(one) == pytest.approx(100)


def test_bytes_are_those_of_the_weights_as_the_files_have_them() -> None:
    bytes_of = {product.label: product.weight_bytes for product in FULL.products}
    assert bytes_of["8b gate+up"] == 2 * 14336 * 4096 // 256 * 144
    assert bytes_of["8b output"] == 128256 * 4096 // 256 * 210
    assert Context("8b", 32, 8, 128, "f16", 8192).kv_bytes == 2 * 8192 * 8 * 128 * 2
    assert Context("8b", 32, 8, 128, "q8_0", 8192, 4).kv_bytes == 8 * 8192 * 8 * 4 * 34
    assert Context("8b", 32, 8, 128, "q8_0:q4_0", 8192).kv_bytes == 8192 * 8 * 4 * (34 + 18)


def test_the_vector_form_is_suggested_up_to_where_the_other_one_first_wins() -> None:
    times = [timing("vector", us, n) for n, us in ((1, 10), (2, 15), (4, 25), (8, 50))]
    times += [timing("product", us, n) for n, us in ((1, 24), (2, 24), (4, 24), (8, 60))]
    ratios = {crossing.tokens: crossing.ratio for crossing in crossings(times)}
    assert ratios == pytest.approx({1: 2.4, 2: 1.6, 4: 0.96, 8: 1.2})
    assert suggested_choices(times)["vector_tokens_q4_K"] == 2


def test_forms_are_compared_at_their_best_and_over_all_matrices_of_a_type() -> None:
    times = [timing("vector", 10), timing("vector", 8, rows_per_warp=4), timing("product", 16)]
    times += [timing("vector", 10, name="8b O"), timing("product", 5, name="8b O")]
    (crossing,) = crossings(times)
    assert crossing.ratio == pytest.approx(1.0)  # 2 and a half


def test_rows_of_a_warp_are_those_with_the_least_time_of_all_matrices() -> None:
    times = [
        timing("vector", us, rows_per_warp=rows, name=name, splits=splits)
        for name, by_rows in (("O", (5, 4, 9)), ("down", (30, 33, 32)))
        for rows, us in zip((1, 2, 4), by_rows, strict=True)
        for splits in (0, 2)
    ]
    assert suggested_choices(times) == {"vector_rows": 1, "vector_splits": 0}
    times.append(timing("vector", 1, rows_per_warp=2, name="only here"))
    assert suggested_choices(times)["vector_rows"] == 1


def test_large_matrices_are_judged_by_their_fastest_launch() -> None:
    times = [timing("vector", 12), timing("vector", 11, splits=2), timing("vector", 5, 2)]
    times.append(timing("vector", 1, name="8b O", large=False))
    assert [one["us"][0] for one in large_ones(times)] == [11]
    assert suggested_choices([]) == {} and crossings([]) == []
