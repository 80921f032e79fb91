"""The CUDA kernels of paged attention, emulated, against float64 and beside plain float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from activation_rows import F16, INT8
from attention_calls import TOLERANCE, attend
from attention_cases import PAGE_SIZES, Model, Sequence, error, make_step, moved, small_models
from attention_float64 import KV_TYPES, decode
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_calls import KernelFailed

HEAD_DIMS = (16, 64, 80, 96, 112, 128, 192, 256, 512)


@pytest.fixture(params=["floats", "matrices"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


sequences = st.lists(
    st.builds(
        Sequence,
        n_past=st.sampled_from((0, 1, 15, 16, 31, 32, 63, 64, 65, 100)),
        n_new=st.sampled_from((1, 1, 2, 3, 7)),
        shared=st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=50)
@given(
    form=st.sampled_from(("floats", "fastest")),
    model=small_models(), seqs=sequences, page_size=st.sampled_from(PAGE_SIZES),
    seed=st.integers(0, 99), interleaved=st.booleans(), n_splits=st.sampled_from((1, 2, 3, 64)),
    together=st.integers(1, 16),
)  # fmt: skip
def test_any_step_is_right_and_reads_only_what_it_attends_to(
    kernels, form, model, seqs, page_size, seed, interleaved, n_splits, together
):
    step = make_step(model, seqs, page_size, seed, interleaved)
    together = max(1, min(together, 16 // model.group))
    result = attend(kernels, step, n_splits, together, order=seed, form=form)
    assert error(result, step.exact()) < TOLERANCE[form]


@pytest.mark.parametrize("k_type", KV_TYPES)
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_every_head_size_is_right(kernels, k_type, head_dim):
    v_type = KV_TYPES[(KV_TYPES.index(k_type) + 1) % 4]
    if "q8_0" in (k_type, v_type) or "q4_0" in (k_type, v_type):
        head_dim = -(-head_dim // 32) * 32  # a whole number of blocks
    model = Model(2, 4, head_dim, head_dim, k_type, v_type)
    step = make_step(model, [Sequence(70, 1)], 16, 1)
    result = attend(kernels, step, n_splits=2, form="floats")
    assert error(result, step.exact()) < TOLERANCE["floats"]


@pytest.mark.parametrize(
    ("k_dim", "v_dim"), [(192, 128), (64, 256), (512, 16), (16, 512), (512, 512)]
)
@pytest.mark.parametrize("group", [1, 16])
def test_k_and_v_may_have_heads_of_different_sizes(kernels, k_dim, v_dim, group):
    model = Model(1, group, k_dim, v_dim, "f16", "bf16", sinks=True)
    step = make_step(model, [Sequence(50, 1)], 8, 2)
    assert error(attend(kernels, step, n_splits=3), step.exact()) < TOLERANCE["floats"]


@pytest.mark.parametrize("window", [1, 7, 8, 9, 31, 32, 33])
@pytest.mark.parametrize("length", [-1, 0, 1, 40])
def test_a_window_begins_at_its_first_position(kernels, window, length, form):
    model = Model(1, 2, 16, 16, "f16", "f16", window=window)
    n_past = max(0, window + length - 1)
    step = make_step(model, [Sequence(n_past, 1), Sequence(n_past, 5)], 8, window)
    exact = step.exact()
    for n_splits, together in ((1, 1), (2, 6), (64, 8)):
        result = attend(kernels, step, n_splits, together, form=form)
        assert error(result, exact) < TOLERANCE[form]


@pytest.mark.parametrize("n_splits", [1, 2])
def test_a_context_of_one_token_is_its_value(kernels, n_splits, form):
    step = make_step(Model(2, 3, 32, 32, "f16", "f16"), [Sequence(0, 1)], 16, 3)
    result = attend(kernels, step, n_splits, form=form)
    value = decode(step.v, "f16")[step.cells(0)].reshape(1, 2, 1, 32)
    np.testing.assert_array_equal(
        result.reshape(1, 2, 3, 32), np.broadcast_to(value, (1, 2, 3, 32))
    )


@pytest.mark.parametrize("tokens_per_block", [1, 3])
def test_tokens_without_a_sequence_get_zeros_and_read_nothing(kernels, tokens_per_block, form):
    seqs = [Sequence(40, 1), Sequence(0, 4), Sequence(70, 1)]
    step = make_step(Model(2, 5, 32, 48, "q8_0", "f16"), seqs, 8, 4)
    exact = step.exact()
    idle = [0, 3, 4]
    exact[idle] = 0.0
    step.positions[idle] = [-1, -(2**31), -1]
    step.rows[idle] = 2**31 - 1
    result = attend(kernels, step, 2, tokens_per_block, form=form)
    assert error(result, exact) < TOLERANCE[form]
    assert not result[idle].any()


@pytest.mark.parametrize("n_splits", [1, 2])
def test_a_block_keeps_tokens_apart_that_do_not_follow_one_another(kernels, n_splits, form):
    step = make_step(Model(1, 2, 16, 16, "f16", "f16"), [Sequence(20, 3), Sequence(21, 3)], 8, 16)
    # The next position of another sequence, of the same one, and an earlier one of the same.
    order = [0, 3, 4, 2, 1, 5]
    step = replace(
        step, q=step.q[order], rows=step.rows[order].copy(), positions=step.positions[order].copy()
    )
    result = attend(kernels, step, n_splits, tokens_per_block=6, form=form)
    assert error(result, step.exact()) < TOLERANCE[form]


@pytest.mark.parametrize("row_format", [INT8, F16])
@pytest.mark.parametrize(("n_splits", "together"), [(1, 1), (3, 4)])
def test_results_are_rows_for_the_next_product(kernels, row_format, n_splits, together):
    step = make_step(Model(2, 3, 64, 32, "f16", "f16"), [Sequence(60, 1), Sequence(20, 6)], 16, 17)
    step.positions[4] = -1
    plain = attend(kernels, step, n_splits, together)
    rows = attend(kernels, step, n_splits, together, row_format=row_format)
    assert not rows[4].any()
    groups = plain.reshape(len(plain), -1, 32)
    largest = np.abs(groups).max(axis=-1, keepdims=True)
    rounding = largest / 254 if row_format == INT8 else np.abs(groups) * 2.0**-11
    assert (np.abs(rows.reshape(groups.shape) - groups) <= rounding * 1.001 + 1e-7).all()


@pytest.mark.parametrize("row_format", [INT8, F16])
def test_rows_are_refused_whose_groups_would_cross_heads(kernels, row_format):
    step = make_step(Model(2, 2, 48, 48, "f16", "f16"), [Sequence(10, 1)], 8, 18)
    with pytest.raises(KernelFailed, match="paged_attention: invalid argument"):
        attend(kernels, step, row_format=row_format)


SPLIT_STEPS = [
    (Model(2, 3, 48, 80, "f16", "f16", sinks=True), [Sequence(150, 1), Sequence(31, 1)], 1),
    (Model(2, 4, 32, 32, "q8_0", "q4_0", window=50), [Sequence(90, 9), Sequence(0, 2)], 4),
]


@pytest.mark.parametrize(("model", "seqs", "tokens_per_block"), SPLIT_STEPS)
def test_bits_do_not_depend_on_the_order_of_blocks_and_threads(
    kernels, model, seqs, tokens_per_block, form
):
    step = make_step(model, seqs, 16, 5)
    first = attend(kernels, step, 4, tokens_per_block, form=form)
    assert error(first, step.exact()) < TOLERANCE[form]
    for order in range(1, 9):
        other = attend(kernels, step, 4, tokens_per_block, order=order, form=form)
        assert np.array_equal(other, first)


@pytest.mark.parametrize(("model", "seqs", "tokens_per_block"), SPLIT_STEPS)
def test_bits_do_not_depend_on_pages(kernels, model, seqs, tokens_per_block, form):
    step = make_step(model, seqs, 16, 6)
    first = attend(kernels, step, 3, tokens_per_block, form=form)
    for page_size in PAGE_SIZES:
        other = attend(kernels, moved(step, page_size, 7), 3, tokens_per_block, form=form)
        assert np.array_equal(other, first)


@pytest.mark.parametrize(("model", "seqs", "tokens_per_block"), SPLIT_STEPS)
def test_a_workspace_serves_one_launch_after_another(kernels, model, seqs, tokens_per_block, form):
    step = make_step(model, seqs, 16, 8)
    first = attend(kernels, step, 64, tokens_per_block, form=form)
    again = attend(kernels, step, 64, tokens_per_block, n_launches=3, order=3, form=form)
    assert np.array_equal(again, first)


@pytest.mark.parametrize("softcap", [0.0, 50.0])
@pytest.mark.parametrize("size", [30.0, 3000.0])
def test_large_scores_neither_overflow_nor_vanish(kernels, softcap, size):
    model = Model(2, 2, 64, 64, "bf16", "bf16", softcap=softcap)
    step = make_step(model, [Sequence(100, 2)], 16, 9)
    step = replace(step, q=step.q * np.float32(size))
    # Scores are as large as `size`: their rounding, and so that of the weights, grows with it.
    assert error(attend(kernels, step, 3), step.exact()) < 3e-6 * size


@pytest.mark.parametrize("n_splits", [1, 4])
def test_sinks_may_be_all_or_nothing(kernels, n_splits, form):
    step = make_step(Model(2, 2, 64, 64, "f16", "f16"), [Sequence(100, 1)], 16, 10)
    sinks = np.array([-np.inf, 1e4, 0.0, -1e4], np.float32)
    result = attend(kernels, replace(step, sinks=sinks), n_splits, form=form)
    assert error(result, replace(step, sinks=sinks).exact()) < TOLERANCE[form]
    plain = attend(kernels, step, n_splits, form=form)
    assert np.array_equal(result[:, [0, 3]], plain[:, [0, 3]])
    assert not result[:, 1].any()


@pytest.mark.parametrize("n_splits", [1, 4])
@pytest.mark.parametrize("kv", ["k", "v"])
def test_what_is_no_number_in_an_attended_cell_shows_in_its_head_alone(kernels, kv, n_splits, form):
    step = make_step(Model(2, 2, 64, 64, "f16", "f16"), [Sequence(100, 1)], 16, 11)
    getattr(step, kv)[step.cells(0)[50], :128] = 0xFF  # KV head 0
    result = attend(kernels, step, n_splits, form=form)
    assert np.isnan(result[:, :2]).any(axis=-1).all()
    assert np.isfinite(result[:, 2:]).all()


@pytest.mark.parametrize(
    ("changed", "step"),
    [
        ({"page_size": 12}, {}),
        ({"page_size": 4}, {}),
        ({"head_dim_k": 24}, {}),
        ({"head_dim_v": 0}, {}),
        ({"head_dim_k": 48, "k_type": "q8_0"}, {}),
        ({"head_dim_k": 1024, "k": np.zeros((64, 4096), np.uint8)}, {}),
        ({"n_head_kv": 3}, {}),
        ({"n_head_kv": 0}, {}),
        ({"k": np.zeros((64, 127), np.uint8)}, {}),
        ({"v": np.zeros((64, 136), np.uint8)}, {}),
        ({}, {"window": -1}),
        ({}, {"n_splits": 0}),
        ({}, {"n_splits": 65}),
        ({}, {"tokens_per_block": 0}),
        ({}, {"tokens_per_block": 9, "form": "floats"}),
        ({}, {"tokens_per_block": 33}),
        ({"k_type": "bf16"}, {"form": "matrices"}),
        ({"v_type": "bf16"}, {"form": "matrices"}),
        ({"head_dim_k": 272, "k": np.zeros((64, 1088), np.uint8)}, {"form": "matrices"}),
        ({"v_type": "q8_0", "v": np.zeros((64, 70), np.uint8)}, {"form": "matrices"}),
    ],
)
def test_what_is_not_covered_is_refused(kernels, changed, step):
    calls = {name: step[name] for name in step.keys() & {"n_splits", "tokens_per_block", "form"}}
    model = Model(2, 2, 32, 32, "f16", "f16", window=step.get("window", 0))
    plain = make_step(replace(model, window=0), [Sequence(10, 1)], 8, 12)
    attend(kernels, plain)
    with pytest.raises(KernelFailed, match="paged_attention: invalid argument"):
        attend(kernels, replace(plain, window=model.window), **calls, **changed)


@pytest.mark.parametrize(
    "missing",
    ["k", "v", "block_tables", "rows", "positions", "q", "out", "workspace", "counters"],
)
def test_memory_that_is_missing_is_refused_at_the_launch(kernels, missing):
    step = make_step(Model(1, 1, 32, 32, "f16", "f16"), [Sequence(10, 1)], 8, 15)
    with pytest.raises(KernelFailed, match="paged_attention: invalid argument"):
        attend(kernels, step, n_splits=2, missing=missing)


def test_no_tokens_are_no_work(kernels):
    step = make_step(Model(1, 1, 32, 32, "f16", "f16"), [Sequence(10, 1)], 8, 13)
    step = replace(step, q=step.q[:0], rows=step.rows[:0], positions=step.positions[:0])
    assert attend(kernels, step, n_splits=2).shape == (0, 1, 32)


@pytest.mark.parametrize(
    ("form", "n_tokens", "heads", "together", "multiprocessors", "n_splits"),
    [
        ("floats", 1, (32, 8), 1, 16, 6),  # 8 blocks for each split
        ("floats", 1, (32, 8), 1, 132, 49),
        ("floats", 1, (32, 1), 1, 132, 64),  # at most; two blocks for 32 heads
        ("floats", 3, (32, 8), 1, 16, 2),
        (
            "floats",
            12,
            (32, 8),
            4,
            16,
            1,
        ),  # three groups of tokens, of as many rows that only two fit
        ("floats", 64, (32, 8), 1, 16, 1),
        ("floats", 0, (32, 8), 1, 16, 1),
        ("matrices", 1, (32, 8), 1, 16, 4),  # two blocks on a multiprocessor
        ("matrices", 1, (32, 8), 1, 132, 16),  # one
        ("matrices", 1, (32, 1), 1, 16, 32),  # a block has all 32 heads
        ("matrices", 32, (32, 8), 16, 16, 2),
    ],
)
def test_splits_fill_the_multiprocessors_once(
    kernels, form, n_tokens, heads, together, multiprocessors, n_splits
):
    found = kernels.paged_attention_splits(
        n_tokens=n_tokens, n_head=heads[0], n_head_kv=heads[1], head_dim=128,
        tokens_per_block=together, n_multiprocessors=multiprocessors, form=form,
    )  # fmt: skip
    assert found == n_splits
