"""What is collected is what goes into the products of weights."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_bytes import Shape, Tensor, tiny_llama
from imatrix_cases import random_experts
from imatrix_collecting import N_CTX, Sums, collected, open_model, text_windows
from stock_imatrix import StockImatrix
from tiny_llama_float64 import Llama

from orin_llm import _native
from orin_llm.engine.loaded_model import LoadedModel
from orin_llm.errors import OrinError

SHAPE = Shape()


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> LoadedModel:
    return open_model(tiny_model)


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imatrix") / "experts.gguf"
    path.write_bytes(random_experts().data)
    return path


def expected_sums(layer: int, window: Any) -> Any:
    """Of the squares that Q, K and V of a layer of the tiny model are made of."""
    llama = Llama(SHAPE)
    x = llama.embedding(window)
    for below in range(layer):
        x = llama.block(below, x, *llama.keys_and_values(below, x))
    normed = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)  # its weights are 1
    return (normed**2).sum(0)


def test_the_sums_are_those_of_the_definition_in_float64(model: LoadedModel) -> None:
    windows = text_windows(2)
    found = collected(model, windows)
    for layer in range(SHAPE.n_layer):
        sums = sum(expected_sums(layer, window) for window in windows)
        for name in ("attn_q", "attn_k", "attn_v"):
            got, counts = found[f"blk.{layer}.{name}.weight"]
            assert counts.tolist() == [2 * N_CTX]
            np.testing.assert_allclose(got[0], sums, rtol=2e-3)


def assert_same(found: Sums, expected: Sums) -> None:
    assert set(found) == set(expected)
    for name, (sums, counts) in expected.items():
        assert found[name][1].tolist() == counts.tolist()
        got, wanted = found[name][0].ravel(), sums.ravel()
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6 * wanted.max())


def test_every_tensors_sums_are_those_of_stock_llama_cpp(
    needs_stock: None, tiny_model: Path, model: LoadedModel
) -> None:
    windows = text_windows(3)
    with StockImatrix(tiny_model) as stock:
        expected = stock.sums(windows.tolist())
    assert len(expected) == 7 * SHAPE.n_layer
    assert_same(collected(model, windows, threads=2), expected)


def test_experts_get_the_tokens_that_stock_llama_cpp_routes_to_them(
    needs_stock: None, experts: Path
) -> None:
    windows = text_windows(3)
    with StockImatrix(experts) as stock:
        expected = stock.sums(windows.tolist())
    found = collected(open_model(experts), windows, threads=2)
    assert_same(found, expected)
    sums, counts = found["blk.1.ffn_up_exps.weight"]
    assert len(counts) == 5 and counts.sum() == 2 * windows.size
    # Two experts read each token's input, which is also the router's.
    router, _ = found["blk.1.ffn_gate_inp.weight"]
    np.testing.assert_allclose(sums.sum(0), 2 * router[0], rtol=1e-5)


def test_threads_do_not_change_a_bit_of_the_sums(experts: Path) -> None:
    loaded, windows = open_model(experts), text_windows(2)
    one, three = (collected(loaded, windows, threads=n) for n in (1, 3))
    for name, (sums, counts) in one.items():
        assert (sums == three[name][0]).all() and (counts == three[name][1]).all()


def test_a_window_may_be_longer_than_a_step(model: LoadedModel) -> None:
    # 1040 tokens are steps of 512, 512 and 16; what is left of 1030 is too little to be looked at.
    for n_ctx, counted in ((1040, 1040), (1030, 1024)):
        windows = text_windows(1, n_ctx)
        found = collected(model, windows)
        sums, counts = found["blk.1.attn_q.weight"]
        assert counts.tolist() == [counted]
        np.testing.assert_allclose(sums[0], expected_sums(1, windows[0, :counted]), rtol=2e-3)


def test_the_output_matrix_is_collected_when_asked(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    head = rng.standard_normal(64 * 300).astype("<f4").tobytes()
    path = tmp_path / "untied.gguf"
    untied = tiny_llama(tensors={"output.weight": Tensor("output.weight", (64, 300), data=head)})
    path.write_bytes(untied.data)
    loaded, windows = open_model(path), text_windows(3)
    without = collected(loaded, windows)
    with_output = collected(loaded, windows, output=True)
    sums, counts = with_output.pop("output.weight")
    assert counts.tolist() == [windows.size] and sums.shape == (1, 64)
    # RMSNorm makes the mean of the squares 1, here with weights of 1.
    assert sums.mean() == pytest.approx(windows.size, rel=1e-3)
    # Without it nothing behind the last norm is computed, from the second window on.
    assert_same(with_output, without)


def test_activations_that_are_not_finite_are_an_error_that_names_the_tensor(tmp_path: Path) -> None:
    huge = np.full(64, 1e30, "<f4").tobytes()
    path = tmp_path / "huge.gguf"
    norm = Tensor("blk.1.ffn_norm.weight", (64,), data=huge)
    path.write_bytes(tiny_llama(tensors={"blk.1.ffn_norm.weight": norm}).data)
    loaded = open_model(path)
    collector = _native.ImatrixCollector(loaded.model, n_ctx=48, threads=1, process_output=False)
    with pytest.raises(OrinError, match=r"the inputs of blk\.1\.ffn_\w+\.weight are not finite"):
        collector.add_window(text_windows(1)[0])
    assert collector.entries() == {}


def test_statistics_of_another_model_are_refused_and_kept(
    model: LoadedModel, experts: Path
) -> None:
    collector = _native.ImatrixCollector(model.model, n_ctx=48, threads=1, process_output=False)
    collector.put(b"blk.1.attn_q.weight", np.ones((1, 32), np.float32), np.array([7]))
    with pytest.raises(OrinError, match=r"32 sums for blk\.1\.attn_q\.weight.* has 64"):
        collector.add_window(text_windows(1)[0])
    assert list(collector.entries()) == ["blk.1.attn_q.weight"]
    with pytest.raises(ValueError, match="rows of the same size"):
        collector.put(b"x", np.ones((1, 3), np.float32), np.array([7, 7]))
    loaded = open_model(experts)
    collector = _native.ImatrixCollector(loaded.model, n_ctx=48, threads=1, process_output=False)
    collector.put(b"blk.0.ffn_up_exps.weight", np.ones((5, 64), np.float32), np.ones(5, np.int64))
    collector.put(b"blk.1.ffn_up_exps.weight", np.ones((2, 160), np.float32), np.array([7, 7]))
    with pytest.raises(OrinError, match=r"2 experts of blk\.1\.ffn_up_exps\.weight"):
        collector.add_window(text_windows(1)[0])


def test_one_count_of_an_older_file_is_that_of_every_expert(experts: Path) -> None:
    loaded, windows = open_model(experts), text_windows(1)
    expected = collected(loaded, windows)["blk.0.ffn_up_exps.weight"][1] + 7
    collector = _native.ImatrixCollector(loaded.model, n_ctx=48, threads=1, process_output=False)
    collector.put(b"blk.0.ffn_up_exps.weight", np.zeros((1, 5 * 64), np.float32), np.array([7]))
    collector.add_window(windows[0])
    assert collector.entries()["blk.0.ffn_up_exps.weight"][1].tolist() == expected.tolist()


def test_a_signal_within_a_window_adds_nothing_of_it(model: LoadedModel) -> None:
    class Alarm(Exception):
        pass

    def ring(_number: int, _frame: Any) -> None:
        raise Alarm

    n_ctx = 2048
    window = text_windows(1, n_ctx)[0]
    collector = _native.ImatrixCollector(model.model, n_ctx=n_ctx, threads=1, process_output=False)
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Alarm):
            for _ in range(1000):
                collector.add_window(window)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    counts = {tuple(counts.tolist()) for _, counts in collector.entries().values()}
    assert len(counts) <= 1 and all(count[0] % n_ctx == 0 for count in counts)
    collector.add_window(window)  # it can go on
    assert all(c[0] % n_ctx == 0 and c[0] > 0 for _, c in collector.entries().values())
