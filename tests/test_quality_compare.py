"""Comparisons: their statistics beside NumPy, and two models, or one in two ways, on one text."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf_bytes import Shape, tiny_llama
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_llm.engine import EngineConfig
from orin_llm.errors import OrinError, UsageError
from orin_llm.quality.base_logits import BaseLogits, BaseLogitsWriter, file_bytes
from orin_llm.quality.compare import Side, compare_models
from orin_llm.quality.comparison import Comparison
from orin_llm.quality.perplexity import Perplexity, perplexity
from orin_llm.quality.window_logits import WindowLogits
from orin_llm.quality.windows import Windows

CONFIG = EngineConfig(n_ctx=64, threads=1, kv_type="bf16")
TEXT = "".join(f"{n} and {n * 7 % 13} are numbers; " for n in range(60))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of one vocabulary, with other weights."""
    folder = tmp_path_factory.mktemp("compared")
    for name, seed in (("a", 1), ("b", 2)):
        (folder / name).write_bytes(tiny_llama(shape=Shape(n_embd=128), seed=seed).data)
    return folder / "a", folder / "b"


def made(n: int = 400) -> Comparison:
    random = np.random.default_rng(1)
    reference = random.gamma(2.0, 1.0, n)
    return Comparison(
        reference + random.normal(0.02, 0.1, n),
        reference,
        random.gamma(1.0, 0.01, n),
        random.random(n) < 0.9,
        random.random(n),
    )


def test_statistics_are_those_of_their_definitions() -> None:
    found = made()
    n, a, b = 400, found.nlls, found.reference_nlls
    assert found.ppl.value == pytest.approx(np.exp(a.mean()))
    assert found.ppl.uncertainty == pytest.approx(np.exp(a.mean()) * a.std() / math.sqrt(n - 1))
    assert found.reference_ppl.value == pytest.approx(np.exp(b.mean()))
    ratio = found.ppl_ratio
    assert ratio.value == pytest.approx(found.ppl.value / found.reference_ppl.value)
    covariance = np.cov(a, b, bias=True) / (n - 1)
    spread = math.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    assert ratio.uncertainty == pytest.approx(ratio.value * spread)
    ordered = np.sort(found.kl_divergences)
    assert found.divergence.max == ordered[-1]
    assert found.divergence.median == pytest.approx((ordered[199] + ordered[200]) / 2)
    assert found.divergence.p99 == pytest.approx(
        ordered[395] + 0.01 * (ordered[396] - ordered[395])
    )
    assert found.divergence.mean.value == pytest.approx(ordered.mean())
    share = found.same_top.mean()
    assert found.top_agreement.value == pytest.approx(share)
    assert found.top_agreement.uncertainty == pytest.approx(
        math.sqrt(share * (1 - share) / (n - 1))
    )
    change = np.exp(-a) - np.exp(-b)
    told = found.probability_change
    assert told.rms.value == pytest.approx(math.sqrt((change**2).mean()))
    spread = (change**2).std() / math.sqrt(n - 1)
    assert told.rms.uncertainty == pytest.approx(spread / (2 * told.rms.value))
    assert told.max == np.abs(change).max()
    assert found.max_logit_difference == found.max_logits.max()
    assert replace(found, max_logits=found.max_logits * np.nan).max_logit_difference is None


def test_the_uncertainty_of_a_perplexity_is_that_of_the_mean_loss() -> None:
    nlls = np.random.default_rng(3).gamma(2.0, 1.0, (5, 40))
    found = Perplexity(nlls, 1.0)
    assert found.ppl.value == pytest.approx(np.exp(nlls.mean()))
    wanted = np.exp(nlls.mean()) * nlls.std() / math.sqrt(nlls.size - 1)
    assert found.ppl.uncertainty == pytest.approx(wanted)
    np.testing.assert_allclose(found.window_ppls, np.exp(nlls.mean(axis=1)))


def test_a_model_compared_with_itself_differs_in_nothing(models: tuple[Path, Path]) -> None:
    side = Side(models[0], CONFIG)
    found = compare_models(side, side, TEXT).comparison
    assert found.ppl_ratio.value == 1 and found.ppl_ratio.uncertainty == 0
    assert found.divergence.max == 0 and found.max_logit_difference == 0
    assert found.top_agreement.value == 1


def test_comparisons_have_the_perplexities_of_both_sides(models: tuple[Path, Path]) -> None:
    sides = [Side(path, CONFIG) for path in models]
    seen: list[tuple[int, int]] = []
    found = compare_models(*sides, TEXT, most=3, on_window=lambda *done: seen.append(done))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)] and len(found.windows) == 3
    for side, ppl in zip(
        sides, (found.comparison.reference_ppl, found.comparison.ppl), strict=True
    ):
        with WindowLogits(side.path, side.config) as model:
            assert perplexity(model, found.windows).ppl == ppl
    assert found.comparison.divergence.mean.value > 0.1
    assert found.reference["model"] == str(models[0]) and found.model["kv_type"] == "bf16"


def test_hooks_and_kv_types_are_compared_on_one_file(models: tuple[Path, Path]) -> None:
    reference = Side(models[0], replace(CONFIG, kv_type="f16"))
    apart = {}
    for name, change in {
        "hooks": {"kv_type": "f16", "hooks": "none"},
        "decode": {"kv_type": "f16"},
        "q8_0": {"kv_type": "q8_0"},
        "q4_0": {"kv_type": "q4_0"},
    }.items():
        model = Side(models[0], replace(CONFIG, **change))
        found = compare_models(reference, model, TEXT, one_by_one=name == "decode")
        apart[name] = found.comparison.divergence.mean.value
    assert apart["decode"] == 0
    assert 0 < apart["hooks"] < 1e-4 and apart["hooks"] < apart["q8_0"] < apart["q4_0"] < 0.1


def test_models_that_cut_a_text_otherwise_cannot_be_compared(
    models: tuple[Path, Path], tmp_path: Path
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(tiny_llama(n_vocab=320).data)
    with pytest.raises(UsageError, match="one vocabulary"):
        compare_models(Side(models[0], CONFIG), Side(other, CONFIG), TEXT)


def saved(path: Path, model: WindowLogits) -> Windows:
    windows = Windows.of_text(model.loaded, TEXT, 64)
    with path.open("wb") as file:
        writer = BaseLogitsWriter(file, windows, model.loaded.n_vocab)
        perplexity(model, windows, save=writer)
    assert path.stat().st_size == file_bytes(windows, model.loaded.n_vocab)
    return windows


def test_saved_log_probabilities_stand_for_the_reference(
    models: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "base"
    sides = [Side(model, CONFIG) for model in models]
    with WindowLogits(models[0], CONFIG) as model:
        windows = saved(path, model)
    base = BaseLogits.read(path)
    np.testing.assert_array_equal(base.tokens, windows.tokens)
    from_file = compare_models(base, sides[1], None)
    both = compare_models(*sides, TEXT).comparison
    found = from_file.comparison
    np.testing.assert_allclose(found.nlls, both.nlls)
    np.testing.assert_allclose(found.reference_nlls, both.reference_nlls, atol=2e-4)
    np.testing.assert_allclose(found.kl_divergences, both.kl_divergences, atol=2e-3)
    assert found.max_logit_difference is None and from_file.reference == {"logits": str(path)}
    first = compare_models(base, sides[1], None, most=1).comparison
    np.testing.assert_array_equal(first.nlls, found.nlls[: len(first.nlls)])


def test_files_of_log_probabilities_that_are_damaged_are_errors(
    models: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "base"
    with WindowLogits(models[0], CONFIG) as model:
        saved(path, model)
        n_vocab = model.loaded.n_vocab
    whole = path.read_bytes()
    for damaged, message in (
        (b"", "no log-probabilities"),
        (b"GGUF" * 8, "no log-probabilities"),
        (whole[:14], "within its head"),
        (whole[:-2], "not written to its end"),
        (whole + b"\0", "not written to its end"),
        (whole[:8] + b"\xff\xff\xff\xff" + whole[12:], "windows have -1 tokens"),
        (whole[:12] + b"\0\0\0\x7f" + whole[16:], "of 2130706432"),
        (whole[:16] + b"\0\0\0\0" + whole[20:], "0 windows"),
        (whole[:16] + b"\xff\xff\xff\x7f" + whole[20:], "2147483647 windows"),
        (whole[:16] + b"\0\0\1\0" + whole[20:], "not written to its end"),
        (whole[:20] + n_vocab.to_bytes(4, "little") + whole[24:], "none of its"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(OrinError, match=message):
            BaseLogits.read(path)
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(OrinError, match="cannot read"):
            BaseLogits.read(missing)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OrinError, match="no file, but a pipe"):
        BaseLogits.read(tmp_path / "pipe")


@settings(max_examples=150)
@given(
    st.binary(max_size=24),
    st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=40),
    st.binary(max_size=64),
)
def test_any_bytes_are_a_file_or_an_error(head: bytes, words: list[int], rest: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        body = np.array(words, "<i4").tobytes()
        for start in (head, b"_logits_" + np.array([16, 2, 1], "<i4").tobytes(), b"_logits_"):
            file.seek(0)
            file.truncate()
            file.write(start + body + rest)
            file.flush()
            try:
                found = BaseLogits.read(Path(file.name))
            except OrinError:
                continue
            assert found.tokens.min() >= 0 and found.tokens.max() < found.n_vocab
            assert all(len(rows) for blocks in found.rows(64) for rows in blocks)


def test_a_file_of_another_vocabulary_is_refused(models: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(tiny_llama(n_vocab=320).data)
    with WindowLogits(other, CONFIG) as model:
        saved(tmp_path / "base", model)
    with pytest.raises(UsageError, match="one vocabulary"):
        compare_models(BaseLogits.read(tmp_path / "base"), Side(models[0], CONFIG), None)
