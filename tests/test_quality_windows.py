"""Logits of whole windows: those that an engine's own steps have, position by position."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import windowed_models
from gguf_bytes import Image, boolean, tiny_experts, tiny_latent, tiny_llama
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stepping import step_probe

from orin_llm.engine import Engine, EngineConfig
from orin_llm.errors import ModelFileError, OrinError, UsageError
from orin_llm.quality.window_logits import BLOCK_ROWS, WindowLogits
from orin_llm.quality.windows import Window, Windows

N = 192  # tokens of a window; more than a block of rows count
TOKENS = np.random.default_rng(5).integers(0, 80, N).astype(np.int32)
WINDOW = Window(TOKENS[:-1], N // 2, TOKENS[N // 2 + 1 :])
CONFIG = EngineConfig(n_ctx=N, threads=1)

# Of logits, whose root mean square is about 1: llama.cpp's attention over an f16 cache adds up in
# half precision, and not in one order.
ROUNDING = {"all": 2e-3, "none": 0.03, "-attention": 0.03}


def rows_of(model: WindowLogits, window: Window = WINDOW, **how: Any) -> NDArray[np.float32]:
    blocks, targets = zip(*model.blocks(window, **how), strict=True)
    np.testing.assert_array_equal(np.concatenate(targets), window.targets)
    assert [len(block) for block in blocks][:-1] == [BLOCK_ROWS] * (len(blocks) - 1)
    return np.concatenate(blocks)


def stepped(path: Path, config: EngineConfig) -> NDArray[np.float32]:
    """Logits of the same positions, one decode step after another."""
    with Engine(path, replace(config, publish=False, max_batch=1)) as engine:
        probe = step_probe(engine)
        probe.prefill(WINDOW.inputs[: WINDOW.first + 1].tolist())
        found = [probe.logits()]
        for token in WINDOW.inputs[WINDOW.first + 1 :].tolist():
            probe.decode(token)
            found.append(probe.logits())
    return np.array(found)


def test_a_model_whose_tokens_see_those_behind_them_has_no_windows(tmp_path: Path) -> None:
    path = tmp_path / "both_ways.gguf"
    path.write_bytes(tiny_llama(metadata={"llama.attention.causal": boolean(False)}).data)
    with pytest.raises(ModelFileError, match="does not foretell the next token"):
        WindowLogits(path, CONFIG)


@pytest.mark.parametrize("hooks", ["all", "none", "-attention"])
def test_a_window_has_the_logits_that_steps_have(tiny_model: Path, hooks: str) -> None:
    config = replace(CONFIG, hooks=hooks)
    with WindowLogits(tiny_model, config) as model:
        assert model.is_paged == (hooks != "none")
        one_by_one = rows_of(model, one_by_one=True)
        as_prompt = rows_of(model)
    wanted = stepped(tiny_model, config)
    assert one_by_one.shape == wanted.shape == (N - 1 - N // 2, model.loaded.n_vocab)
    np.testing.assert_array_equal(one_by_one, wanted)
    np.testing.assert_allclose(as_prompt, wanted, atol=ROUNDING[hooks])


def test_windows_do_not_know_of_each_other(tiny_model: Path) -> None:
    other = Window(WINDOW.inputs[::-1].copy(), WINDOW.first, WINDOW.targets)
    for hooks in ("all", "none"):
        with WindowLogits(tiny_model, replace(CONFIG, hooks=hooks)) as model:
            first = rows_of(model)
            np.testing.assert_array_equal(rows_of(model), first)
            assert not np.array_equal(rows_of(model, other), first)
            np.testing.assert_array_equal(rows_of(model), first)


def test_a_window_may_be_left_unfinished(tiny_model: Path) -> None:
    config = replace(CONFIG, chunk_size=16)
    with WindowLogits(tiny_model, config) as model:
        whole = rows_of(model)
        for one_by_one in (False, True):
            next(model.blocks(WINDOW, one_by_one=one_by_one))
        np.testing.assert_array_equal(rows_of(model), whole)


@pytest.mark.parametrize("hooks", ["all", "none"])
def test_chunks_change_rounding_alone(tiny_model: Path, hooks: str) -> None:
    found = []
    for chunk_size in (512, 32, 7):
        config = replace(CONFIG, chunk_size=chunk_size, hooks=hooks)
        with WindowLogits(tiny_model, config) as model:
            found.append(rows_of(model))
    np.testing.assert_allclose(found[1], found[0], atol=ROUNDING[hooks])
    np.testing.assert_allclose(found[2], found[0], atol=ROUNDING[hooks])


@pytest.mark.parametrize(
    ("make", "is_paged"),
    [(windowed_models.gemma3, True), (tiny_experts, True), (tiny_latent, False)],
)
def test_models_of_all_kinds_have_the_logits_that_steps_have(
    tmp_path: Path, make: Callable[[], Image], is_paged: bool
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(make().data)
    with WindowLogits(path, CONFIG) as model:
        assert model.is_paged is is_paged
        assert ("note" in model.describe()["backend"]) is not is_paged
        found = rows_of(model)
    tolerance = ROUNDING["all" if is_paged else "none"]
    np.testing.assert_allclose(found, stepped(path, CONFIG), atol=tolerance)


def test_weights_are_shared_where_they_are_the_same(tiny_model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(tiny_model.read_bytes())
    with WindowLogits(tiny_model, CONFIG) as model:
        same = WindowLogits(tiny_model, replace(CONFIG, kv_type="bf16"), beside=model)
        other = WindowLogits(copy, CONFIG, beside=model)
        assert same.loaded is model.loaded and other.loaded is not model.loaded
        assert np.abs(rows_of(same) - rows_of(model)).max() > 0
    with pytest.raises(OrinError, match="closed"):
        rows_of(model)
    rows_of(same)


def test_what_is_no_window_is_refused(tiny_model: Path) -> None:
    with WindowLogits(tiny_model, CONFIG) as model:
        for first in (-1, N - 1):
            with pytest.raises(ValueError, match="first position"):
                next(model.blocks(replace(WINDOW, first=first)))
        with pytest.raises(ValueError, match="a step may have 96"):
            next(model.blocks(replace(WINDOW, first=1)))
        with pytest.raises(Exception, match="at most 192"):
            next(model.blocks(Window(np.zeros(N, np.int32), N - 4, TOKENS)))
        rows_of(model)
    with pytest.raises(UsageError, match="trained for"):
        WindowLogits(tiny_model, EngineConfig(n_ctx=1 << 20))
    with pytest.raises(ModelFileError):
        WindowLogits(Path(__file__), CONFIG)


def test_a_text_is_cut_into_whole_windows_that_begin_with_bos(tmp_path: Path) -> None:
    image = tiny_llama()
    path = tmp_path / "bos.gguf"
    path.write_bytes(image.data)
    with WindowLogits(path, CONFIG) as model:
        text = "the quick brown fox " * 40
        ids = model.loaded.tokenize(text)
        windows = Windows.of_text(model.loaded, text, 64)
        assert len(windows) == len(ids) // 64
        np.testing.assert_array_equal(windows.tokens.ravel(), ids[: len(windows) * 64])
        for i, window in enumerate(windows):
            wanted = ids[i * 64 : (i + 1) * 64]
            if model.loaded.add_bos:
                wanted[0] = model.loaded.bos_id
            assert window.inputs.tolist() == wanted[:-1]
            assert window.first == 32 and window.targets.tolist() == wanted[33:]
        assert len(Windows.of_text(model.loaded, text, 64, most=2)) == 2
        with pytest.raises(UsageError, match="less than one window of 8192"):
            Windows.of_text(model.loaded, text, 8192)


@pytest.fixture(scope="module")
def by_chunk(tiny_model: Path) -> dict[int, WindowLogits]:
    return {n: WindowLogits(tiny_model, replace(CONFIG, chunk_size=n)) for n in (1, 13, 64, 192)}


@settings(max_examples=60)
@given(data=st.data())
def test_rows_do_not_depend_on_how_they_are_asked_for(
    by_chunk: dict[int, WindowLogits], data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, N - 1))
    first = data.draw(st.integers(max(0, n - 96), n - 1))  # as many outputs as a step may have
    model = by_chunk[data.draw(st.sampled_from([1, 13, 64, 192]))]
    one_by_one = data.draw(st.booleans())
    runner = model.runner
    runner.begin(TOKENS[:n], first=first, one_by_one=one_by_one)
    found = []
    while len(rows := runner.next_rows(data.draw(st.integers(1, 70)))):
        found.append(rows)
    whole = by_chunk[192].runner
    whole.begin(TOKENS[:n], first=first, one_by_one=False)
    np.testing.assert_allclose(np.concatenate(found), whole.next_rows(n), atol=2e-3)
    assert len(np.concatenate(found)) == n - first


def test_ctrl_c_ends_a_step_within_it_and_the_model_goes_on(smollm2: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    long = np.arange(1000, 1511, dtype=np.int32)
    with WindowLogits(smollm2, EngineConfig(n_ctx=512, threads=1)) as model:
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)  # a step takes more than a second
            with pytest.raises(KeyboardInterrupt):
                next(model.blocks(Window(long, 256, long[256:])))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert len(model.runner.next_rows(1)) == 0  # else the step was computed to its end
        (found,) = (rows for rows, _ in model.blocks(Window(long[:8], 6, long[7:9])))
        assert np.isfinite(found).all()
