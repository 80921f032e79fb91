"""A RoPE table holds upstream's rows bit for bit, and they are right to the rounding of floats."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rope_formula import (
    IMROPE,
    MROPE,
    NEOX,
    NORM,
    VISION,
    Rope,
    exact_rows,
    float_error,
    llama3_factors,
    pair_channels,
    rotate,
    spread,
    upstream_rows,
    wrong_rows,
)
from rope_probe import probe, random_x, rows, stock, with_table

POSITIONS = np.array([0, 1, 2, 255, 256, 257, 4095, 32767, 65536, 100003, 131071], np.int32)
# Where float steps have lost little: float_error stays below 1e-4 per unit of input.
NEAR = np.array([0, 1, 2, 31, 32, 33, 60, 77], np.int32)
NEAR_ERROR = 2e-4

CASES = {
    "norm": Rope(NORM, freq_base=10000.0),
    "neox": Rope(NEOX, 128, 128, freq_base=1e6),
    "llama3": Rope(NORM, 128, 128, freq_base=5e5, freq_factors=llama3_factors(128, 5e5)),
    "linear": Rope(NEOX, freq_scale=0.125),
    "yarn": Rope(
        NEOX, 128, 128, n_ctx_orig=32768, freq_base=1e6, freq_scale=0.25, ext_factor=1.0,
        attn_factor=0.9,
    ),
    "yarn-half": Rope(
        NORM, n_ctx_orig=4096, freq_scale=1 / 32, ext_factor=0.5, beta_fast=24.0, beta_slow=2.0,
    ),
    "longrope": Rope(
        NEOX, 96, 96, attn_factor=1.1902, freq_factors=tuple(1.0 + 0.7 * i for i in range(48)),
    ),
    "partial": Rope(NEOX, 32, 80),
    "offset": Rope(NORM, 64, 192, n_offs=128),
    "offset-neox": Rope(NEOX, 32, 64, n_offs=16, freq_base=1e5),
    "sections": Rope(MROPE, 128, 128, freq_base=1e6, sections=(16, 24, 24, 0)),
    "sections-wrap": Rope(MROPE, 128, 128, sections=(4, 6, 5, 3)),
    "sections-extra": Rope(
        MROPE, 64, 80, freq_base=1e5, freq_scale=0.5, ext_factor=1.0, sections=(6, 10, 9, 7),
    ),
    "interleaved": Rope(IMROPE, 128, 128, freq_base=5e6, sections=(24, 20, 20, 0)),
    "interleaved-extra": Rope(IMROPE, 64, 64, sections=(5, 4, 3, 6)),
}  # fmt: skip

each_case = pytest.mark.parametrize("rope", CASES.values(), ids=CASES.keys())


@each_case
def test_table_rows_are_upstreams_bit_for_bit(rope):
    positions = spread(rope, POSITIONS)
    table, upstream = rows(with_table(), rope, positions), rows(stock(), rope, positions)
    if rope.ext_factor:
        # compilers may fuse the multiply-adds of the ramp differently in the two places
        assert (np.abs(table - upstream) <= 2 * float_error(rope, positions)[..., None]).all()
    else:
        assert np.array_equal(table, upstream)


@each_case
def test_table_rows_are_right_to_the_rounding_of_their_steps(rope):
    positions = spread(rope, POSITIONS)
    error = np.abs(rows(with_table(), rope, positions) - exact_rows(rope, positions))
    assert (error <= float_error(rope, positions)[..., None]).all()


@each_case
def test_table_rotates_every_head_and_copies_the_other_channels(rope):
    hooks = with_table()
    x, positions = random_x(rope, len(NEAR)), spread(rope, NEAR)
    out = hooks.run_rope(x, positions, probe(rope))
    assert np.abs(out - rotate(rope, x, positions)).max() <= NEAR_ERROR
    rotated = np.zeros(rope.head_dim, bool)
    rotated[np.concatenate(pair_channels(rope))] = True
    assert np.array_equal(out[..., ~rotated], x[..., ~rotated])
    assert hooks.rope_counters == {
        "lookups": len(NEAR), "fallbacks": 0, "out_of_bounds": 0,
    }  # fmt: skip


@each_case
def test_half_precision_is_within_one_step_of_exact(rope):
    positions = spread(rope, NEAR)
    x = random_x(rope, len(NEAR)).astype(np.float16)
    out = with_table().run_rope(x, positions, probe(rope, f16=True))
    exact = rotate(rope, x, positions)
    step = np.spacing(np.maximum(np.abs(exact), 2.0**-14).astype(np.float16)).astype(np.float64)
    assert (np.abs(out - exact) <= step + NEAR_ERROR).all()


@each_case
@pytest.mark.parametrize("n_threads", [2, 3, 5, 8])
def test_threads_change_nothing(rope, n_threads):
    x = random_x(rope, 23, n_head=5, n_batch=2)
    positions = spread(rope, np.arange(250, 273, dtype=np.int32))
    hooks = with_table(1024)
    out = hooks.run_rope(x, positions, probe(rope, n_threads=n_threads))
    assert np.array_equal(out, with_table(1024).run_rope(x, positions, probe(rope)))
    assert np.abs(out - rotate(rope, x, positions)).max() <= NEAR_ERROR
    assert hooks.rope_counters["fallbacks"] == hooks.rope_counters["out_of_bounds"] == 0
    assert hooks.rope_counters["lookups"] >= 23 * 2


@each_case
def test_wrong_formulas_are_told_apart(rope):
    positions = spread(rope, POSITIONS)
    got = rows(with_table(), rope, positions)
    for name, wrong in wrong_rows(rope, positions).items():
        assert np.abs(got - wrong).max() > 1e-3, name


@pytest.mark.parametrize(
    "rope",
    [rope for rope in CASES.values() if not rope.ext_factor],
    ids=[name for name, rope in CASES.items() if not rope.ext_factor],
)
def test_without_the_hook_rows_are_upstreams_formula_bit_for_bit(rope):
    positions = spread(rope, np.array([0, 1, 77, 4095, 131071, -3, -900], np.int32))
    assert np.array_equal(rows(stock(), rope, positions), upstream_rows(rope, positions))


@each_case
def test_positions_outside_the_table_take_the_stock_path_bit_for_bit(rope):
    n_ctx = 300
    positions = spread(rope, np.array([-1, -131072, 300, 301, 511, 512, 2**30], np.int32))
    hooks = with_table(n_ctx)
    x = random_x(rope, positions.shape[-1])
    assert np.array_equal(
        hooks.run_rope(x, positions, probe(rope)), stock().run_rope(x, positions, probe(rope))
    )
    assert hooks.rope_counters == {"lookups": 0, "fallbacks": 7, "out_of_bounds": 0}
    assert hooks.rope_table_bytes == 0


@pytest.mark.parametrize("axis", range(4))
def test_one_uncovered_position_of_four_sends_the_row_to_the_stock_path(axis):
    rope = CASES["sections-extra"]
    positions = np.full((4, 2), 5, np.int32)
    positions[axis, 1] = 300
    hooks = with_table(300)
    x = random_x(rope, 2)
    out = hooks.run_rope(x, positions, probe(rope))
    assert np.array_equal(out[:, 1], stock().run_rope(x, positions, probe(rope))[:, 1])
    assert hooks.rope_counters == {"lookups": 1, "fallbacks": 1, "out_of_bounds": 0}


@settings(max_examples=60)
@given(
    n_ctx=st.integers(0, 1500),
    positions=st.lists(st.integers(-3, 2000), min_size=1, max_size=40),
    n_batch=st.integers(1, 2),
)
def test_every_row_is_a_lookup_or_a_fallback_and_never_out_of_bounds(n_ctx, positions, n_batch):
    rope = Rope(NORM, 16, 16)
    hooks = with_table(n_ctx)
    x, where = random_x(rope, len(positions), 1, n_batch), np.array(positions, np.int32)
    out = hooks.run_rope(x, where, probe(rope))
    covered = int(((where >= 0) & (where < n_ctx)).sum())
    counters = hooks.rope_counters
    assert counters["out_of_bounds"] == 0
    # a row is kept while the token stays the same, also from one batch to the next
    batches = n_batch if len(positions) > 1 else 1
    assert counters["lookups"] == covered * batches
    assert counters["fallbacks"] == (len(positions) - covered) * batches
    assert np.abs(out - rotate(rope, x, where)).max() < 1e-2


def test_a_table_is_shared_by_equal_nodes_and_grows_with_use():
    hooks = with_table()
    block = 256 * 64 * 4  # positions * n_dims * bytes of a float
    rope = CASES["norm"]
    for position, n_blocks in [(3, 1), (255, 1), (131071, 2), (256, 3), (0, 3)]:
        positions = np.array([position], np.int32)
        hooks.run_rope(random_x(rope, 1), positions, probe(rope))
        assert (hooks.n_rope_tables, hooks.rope_table_bytes) == (1, n_blocks * block)
    hooks.run_rope(random_x(rope, 1), POSITIONS[:1], probe(replace(rope, mode=NEOX, n_ctx_orig=9)))
    assert hooks.n_rope_tables == 1  # the order of the channels does not change the angles


@pytest.mark.parametrize(
    ("case", "change"),
    [
        ("norm", {"n_dims": 32}),
        ("norm", {"freq_base": 10001.0}),
        ("norm", {"freq_scale": 0.5}),
        ("norm", {"attn_factor": 1.5}),
        ("norm", {"freq_factors": (2.0,) * 32}),
        ("norm", {"mode": MROPE, "sections": (8, 8, 8, 8)}),
        ("yarn-half", {"ext_factor": 0.25}),
        ("yarn-half", {"beta_fast": 8.0}),
        ("yarn-half", {"beta_slow": 8.0}),
        ("yarn-half", {"n_ctx_orig": 2048}),
        ("sections", {"sections": (24, 16, 24, 0)}),
        ("sections", {"mode": IMROPE}),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_different_parameter_gets_a_table_of_its_own(case, change):
    first = CASES[case]
    second = replace(first, **change)
    hooks = with_table(1024)
    for rope in (first, second, first, second):
        positions = spread(rope, np.array([700, 3], np.int32))
        x = random_x(rope, 2)
        out = hooks.run_rope(x, positions, probe(rope))
        assert np.abs(out - rotate(rope, x, positions)).max() <= NEAR_ERROR
    assert hooks.n_rope_tables == 2
    assert hooks.rope_counters["fallbacks"] == 0


def test_changed_contents_of_the_factors_get_a_table_of_their_own():
    hooks = with_table(1024)
    for factor in (2.0, 3.0):
        rope = replace(CASES["norm"], freq_factors=(factor,) * 32)
        error = rows(hooks, rope, POSITIONS[:3]) - exact_rows(rope, POSITIONS[:3])
        assert np.abs(error).max() <= 1e-6
    assert hooks.n_rope_tables == 2


NO_TABLE = {
    "factors that may change": (CASES["llama3"], {"factors_are_weights": False}),
    "a factor of zero": (replace(CASES["norm"], freq_factors=(0.0,) * 32), {}),
    "a base of zero": (replace(CASES["norm"], freq_base=0.0), {}),
    "a base that is not a number": (replace(CASES["norm"], freq_base=float("nan")), {}),
    "the inverse rotation": (CASES["norm"], {"backward": True}),
    "vision": (Rope(VISION, 32, 64, sections=(16, 16, 0, 0)), {}),
    "sections wider than the row": (Rope(MROPE, 32, 64, sections=(30, 30, 0, 0)), {}),
    "a negative section": (Rope(MROPE, 32, 64, sections=(8, 8, -1, 8)), {}),
}


@pytest.mark.parametrize(("rope", "options"), NO_TABLE.values(), ids=NO_TABLE.keys())
def test_what_a_table_cannot_stand_for_stays_stock(rope, options):
    hooks = with_table()
    positions = spread(rope, POSITIONS)
    x = random_x(rope, len(POSITIONS))
    out = hooks.run_rope(x, positions, probe(rope, **options))
    assert np.array_equal(
        out, stock().run_rope(x, positions, probe(rope, **options)), equal_nan=True
    )
    assert hooks.n_rope_tables == 0
    assert hooks.rope_counters == {"lookups": 0, "fallbacks": 0, "out_of_bounds": 0}


def test_graphs_on_many_threads_share_a_table_that_is_built_once():
    rope = CASES["neox"]
    hooks = with_table(4096)
    positions = np.arange(4096, dtype=np.int32)
    x = random_x(rope, 4096, n_head=1)
    start = threading.Barrier(8)
    results: list[NDArray] = []

    def run() -> None:
        start.wait()
        results.append(hooks.run_rope(x, positions, probe(rope, n_threads=2)))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(np.array_equal(result, results[0]) for result in results)
    assert np.array_equal(results[0], stock().run_rope(x, positions, probe(rope)))
    assert (hooks.n_rope_tables, hooks.rope_table_bytes) == (1, 4096 * 128 * 4)
    assert hooks.rope_counters == {"lookups": 8 * 4096, "fallbacks": 0, "out_of_bounds": 0}
