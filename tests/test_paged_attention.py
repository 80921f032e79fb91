"""The CPU kernel of paged attention against float64, and beside llama.cpp's flash attention."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attention_cases import PAGE_SIZES, Model, Sequence, error, make_step, moved
from attention_float64 import KV_TYPES
from hypothesis import given, settings
from hypothesis import strategies as st

HEAD_DIMS = (64, 80, 96, 112, 128, 192, 256)
LENGTHS = (1, 2, 7, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200, 300)
# V is near 1: rounding leaves about 1e-6; a position too many or too few changes 1e-3 or more.
TOLERANCE = 1e-5


@st.composite
def models(draw: st.DrawFn) -> Model:
    k_type, v_type = draw(st.sampled_from(KV_TYPES)), draw(st.sampled_from(KV_TYPES))
    blocks = [d for d in HEAD_DIMS if d % 32 == 0]
    return Model(
        n_head_kv=draw(st.integers(1, 3)),
        group=draw(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 70])),
        head_dim_k=draw(st.sampled_from(blocks if k_type.startswith("q") else HEAD_DIMS)),
        head_dim_v=draw(st.sampled_from(blocks if v_type.startswith("q") else HEAD_DIMS)),
        k_type=k_type,
        v_type=v_type,
        softcap=draw(st.sampled_from([0.0, 2.0, 30.0])),
        window=draw(st.sampled_from([0, 0, 1, 5, 64, 100])),
        sinks=draw(st.booleans()),
    )


sequences = st.lists(
    st.builds(
        Sequence,
        n_past=st.sampled_from((0, *LENGTHS)),
        n_new=st.one_of(st.just(1), st.sampled_from(LENGTHS[:10])),
        shared=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=80)
@given(
    model=models(), seqs=sequences, page_size=st.sampled_from(PAGE_SIZES), seed=st.integers(0, 99),
    interleaved=st.booleans(),
)  # fmt: skip
def test_any_step_is_right_and_reads_only_what_it_attends_to(
    model, seqs, page_size, seed, interleaved
):
    step = make_step(model, seqs, page_size, seed, interleaved)
    exact, probe = step.exact(), step.probe()
    for n_threads in (1, 2, 3, 4):
        assert error(probe.run(n_threads), exact) < TOLERANCE


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_every_head_size_is_right(kv_type, head_dim):
    if kv_type.startswith("q") and head_dim % 32:
        pytest.skip("a head of a quantized cache is a whole number of blocks")
    step = make_step(
        Model(2, 4, head_dim, head_dim, kv_type, kv_type),
        [Sequence(70, 20), Sequence(90, 1)],
        16,
        1,
    )
    assert error(step.probe().run(2), step.exact()) < TOLERANCE


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize(
    ("n_past", "n_new", "page_size"),
    [
        (100, 1, 8), (1000, 1, 16), (4000, 1, 64), (16383, 1, 256), (0, 300, 16), (3000, 100, 128),
        (16320, 64, 32),
    ],
)  # fmt: skip
def test_error_is_at_most_that_of_flash_attention(kv_type, n_past, n_new, page_size):
    one_page = 1 << (n_past + n_new - 1).bit_length()  # position t lies in cell t
    ours, theirs = [], []
    for seed in range(1 if n_past + n_new > 8192 else 4):
        model = Model(1, 2, 64, 64, kv_type, kv_type)
        step = moved(make_step(model, [Sequence(n_past, n_new)], 16, seed), one_page, seed)
        exact = step.exact()
        theirs.append(step.probe().run_stock(2) - exact)
        ours.append(moved(step, page_size, seed).probe().run(1 + seed % 2) - exact)
    assert np.abs(ours).max() <= 1.1 * np.abs(theirs).max()
    assert np.sqrt(np.square(ours).mean()) <= 1.1 * np.sqrt(np.square(theirs).mean())


@settings(max_examples=30)
@given(model=models(), seqs=sequences, n_threads=st.integers(1, 4), seed=st.integers(0, 99))
def test_bits_do_not_depend_on_pages(model, seqs, n_threads, seed):
    step = make_step(replace(model, window=0), [replace(s, shared=False) for s in seqs], 16, seed)
    first = step.probe().run(n_threads)
    for page_size in PAGE_SIZES:
        other = moved(step, page_size, seed)
        assert np.array_equal(other.probe().run(n_threads), first)


@pytest.mark.parametrize("n_threads", [2, 3, 4])
@pytest.mark.parametrize("seqs", [[Sequence(700, 1)], [Sequence(600, 5), Sequence(300, 1)]])
def test_bits_do_not_depend_on_which_thread_comes_last(n_threads, seqs):
    step = make_step(Model(1, 3, 64, 64, "f16", "f16"), seqs, 16, 5)
    probe = step.probe()
    first = probe.run(n_threads)
    assert error(first, step.exact()) < TOLERANCE
    for seed in range(100):
        assert np.array_equal(probe.run(n_threads, max_delay_us=150, seed=seed), first)


def test_one_workspace_serves_any_number_of_threads_in_turn():
    step = make_step(Model(1, 3, 64, 64, "f16", "f16"), [Sequence(700, 1)], 16, 6)
    exact, probe = step.exact(), step.probe(max_threads=4)
    for n_threads in (4, 1, 3, 2, 4):
        assert error(probe.run(n_threads), exact) < TOLERANCE


@pytest.mark.parametrize("n_new", [1, 20])
@pytest.mark.parametrize("softcap", [0.0, 50.0])
@pytest.mark.parametrize("size", [30.0, 3000.0])
def test_large_scores_neither_overflow_nor_vanish(n_new, softcap, size):
    model = Model(2, 2, 64, 64, "bf16", "bf16", softcap=softcap)
    step = make_step(model, [Sequence(300, n_new)], 16, 7)
    step = replace(step, q=step.q * np.float32(size))
    # Scores are as large as `size`: their rounding, and so that of the weights, grows with it.
    assert error(step.probe().run(2), step.exact()) < 3e-6 * size


@pytest.mark.parametrize("n_new", [1, 20])
def test_sinks_may_be_all_or_nothing(n_new):
    step = make_step(Model(2, 2, 64, 64, "f16", "f16"), [Sequence(300, n_new)], 16, 8)
    sinks = np.array([-np.inf, 1e4, 0.0, -1e4], np.float32)
    result = replace(step, sinks=sinks).probe().run(2)
    assert error(result, replace(step, sinks=sinks).exact()) < TOLERANCE
    plain = step.probe().run(2)
    assert np.array_equal(result[:, [0, 3]], plain[:, [0, 3]])
    assert not result[:, 1].any()


@pytest.mark.parametrize("n_new", [1, 20])
@pytest.mark.parametrize("kv", ["k", "v"])
def test_what_is_no_number_in_an_attended_cell_shows_in_its_head_alone(kv, n_new):
    step = make_step(Model(2, 2, 64, 64, "f16", "f16"), [Sequence(100, n_new)], 16, 9)
    cell = step.cells(0)[50]
    getattr(step, kv)[cell, :128] = 0xFF  # KV head 0
    result = step.probe().run(2)
    assert np.isnan(result[:, :2]).any(axis=-1).all()
    assert np.isfinite(result[:, 2:]).all()


@pytest.mark.parametrize("n_new", [1, 20])
@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_what_is_no_number_in_a_query_shows_in_its_head_alone(kv_type, n_new):
    step = make_step(Model(2, 2, 64, 64, kv_type, kv_type), [Sequence(100, n_new)], 16, 10)
    q = step.q.copy()
    q[:, 1, 7], q[:, 2, 40] = np.nan, np.inf
    result = replace(step, q=q).probe().run(2)
    assert np.isnan(result[:, 1:3]).all()
    assert np.isfinite(result[:, [0, 3]]).all()


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("size", [1e-25, 1e25])
def test_queries_may_be_of_any_size(kv_type, size):
    step = make_step(Model(2, 3, 64, 64, kv_type, kv_type), [Sequence(100, 1)], 16, 11)
    sized = replace(step, q=step.q * np.float32(size), scale=step.scale / size)
    assert error(sized.probe().run(2), step.exact()) < TOLERANCE
    nothing = replace(step, q=step.q * np.float32(0.0))
    assert error(nothing.probe().run(2), nothing.exact()) < TOLERANCE


@pytest.mark.parametrize("sign", [-1, 1])
def test_sums_of_the_largest_whole_numbers_do_not_overflow(sign):
    step = make_step(Model(1, 2, 64, 64, "q8_0", "f16"), [Sequence(63, 1)], 16, 12)
    numbers = np.repeat(np.array([-128, 127, 1, 0], np.int8), 16)  # of the keys, one after another
    for cell, number in zip(step.cells(0), numbers, strict=True):
        blocks = step.k[cell].reshape(2, 34)
        blocks[:, :2] = np.array([1e-3], np.float16).view(np.uint8)
        blocks[:, 2:] = number.view(np.uint8)
    step = replace(step, q=np.full_like(step.q, sign * 0.5))
    assert error(step.probe().run(1), step.exact()) < TOLERANCE
