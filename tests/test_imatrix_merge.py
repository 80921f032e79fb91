"""Importance matrices are added up as llama.cpp's tool adds them, and tell what they hold."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from imatrix_cases import entry, legacy, small

from orin_llm.errors import OrinError
from orin_llm.quality.imatrix import Imatrix
from orin_llm.quality.imatrix_file import read_imatrix, write_imatrix
from orin_llm.quality.imatrix_merge import merge
from orin_llm.quality.imatrix_statistics import statistics, unused_tensors


def test_sums_counts_and_texts_are_added() -> None:
    other = Imatrix(
        {
            "blk.0.ffn_up.weight": entry([[1, 1, 1, 1]], [512]),
            "blk.0.attn_q.weight": entry([[2]], [9]),
        },
        ("b.txt", "c.txt"),
        1,
        512,
    )
    both = merge([("1", small()), ("2", other)], 512)
    assert list(both.entries) == [
        "blk.0.attn_q.weight",
        "blk.0.ffn_up.weight",
        "blk.0.ffn_up_exps.weight",
    ]
    added = both.entries["blk.0.ffn_up.weight"]
    assert (added.sums.tolist(), added.counts.tolist()) == ([[4, 7, 1, 2.5]], [2048])
    assert (both.datasets, both.chunk_count, both.chunk_size) == (
        ("a.txt", "b.txt", "c.txt"),
        4,
        512,
    )


def test_one_count_for_all_experts_is_that_of_each() -> None:
    experts = small().entries["blk.0.ffn_up_exps.weight"]
    older = Imatrix({"e": entry([[1, 1, 1, 1, 1, 1]], [10])}, ("b",), 1, 10)
    newer = Imatrix({"e": experts}, ("b",), 1, 10)
    for pair in ((older, newer), (newer, older)):
        added = merge([("", matrix) for matrix in pair], 10).entries["e"]
        assert added.counts.tolist() == [14, 10, 19]
        assert added.sums.tolist() == [[2, 3], [1, 1], [6, 8]]


def test_the_older_format_counts_windows(tmp_path: Path) -> None:
    path = tmp_path / "i.dat"
    path.write_bytes(legacy({"blk.0.ffn_up.weight": ([6.0, 3.0, 0.0, 3.0], 3)}, text=""))
    both = merge([(str(path), read_imatrix(path)), ("2", small())], 512)
    added = both.entries["blk.0.ffn_up.weight"]
    assert added.counts.tolist() == [3 * 512 + 1536]
    assert added.sums.tolist() == [[6 * 512 + 3, 3 * 512 + 6, 0, 3 * 512 + 1.5]]
    assert both.datasets == (str(path), "a.txt")  # where it names no text, the file is named


@pytest.mark.parametrize(
    ("sums", "counts"), [([[1, 2, 3]], [1]), ([[1, 2, 3], [1, 2, 3]], [1, 1])], ids=["n", "experts"]
)
def test_files_of_different_models_are_not_added(sums: list[list[int]], counts: list[int]) -> None:
    other = Imatrix({"blk.0.ffn_up_exps.weight": entry(sums, counts)}, ("b",), 1, 512)
    with pytest.raises(OrinError, match=r"^2: blk\.0\.ffn_up_exps\.weight .* different models"):
        merge([("1", small()), ("2", other)], 512)


def test_sums_that_overflow_are_refused() -> None:
    huge = Imatrix({"a": entry([[3e38]], [1])}, ("b",), 1, 512)
    with pytest.raises(OrinError, match="too large"):
        merge([("1", huge), ("2", huge)], 512)
    older = Imatrix({"a": entry([[3e38]], [1])}, ("b",), 1, 0, is_legacy=True)
    with pytest.raises(OrinError, match="too large"):
        merge([("1", older)], 512)


def test_more_tokens_than_a_file_can_say_in_windows_are_kept(tmp_path: Path) -> None:
    many = Imatrix({"a": entry([[1.0]], [2**50])}, ("b",), 1, 16)
    write_imatrix(tmp_path / "i.gguf", merge([("1", many)], 16))
    found = read_imatrix(tmp_path / "i.gguf")
    assert (found.chunk_count, found.entries["a"].counts.tolist()) == (2**32 - 1, [2**50])


def test_statistics_are_of_mean_squares_of_what_was_used() -> None:
    experts, dense = statistics(small())
    assert (experts.name, dense.name) == ("blk.0.ffn_up_exps.weight", "blk.0.ffn_up.weight")
    assert unused_tensors(small()) == ["blk.0.ffn_up_exps.weight"]
    assert (experts.matrices, experts.unused, experts.tokens) == (3, 1, 9)
    means = [1 / 4, 2 / 4, 5 / 9, 7 / 9]
    assert experts.total == pytest.approx(sum(means))
    assert (experts.mean, experts.largest) == pytest.approx((sum(means) / 4, 7 / 9))
    assert experts.deviation == pytest.approx(float(np.std(means)))
    shares = [mean / sum(means) for mean in means]
    assert experts.entropy == pytest.approx(-sum(p * math.log2(p) for p in shares) / 2)
    assert experts.outliers == 0.25  # the last alone
    assert (experts.active, dense.active) == (1.0, 0.75)


def test_a_tensor_without_a_token_has_no_statistics() -> None:
    assert statistics(Imatrix({"a": entry([[0.0]], [0])}, (), 0, 512)) == []
    (alone,) = statistics(Imatrix({"a": entry([[0.0, 0.0]], [5])}, (), 0, 512))
    assert (alone.total, alone.entropy, alone.outliers) == (0, 0, 0)
