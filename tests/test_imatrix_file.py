"""Files of importance matrices say what they hold, and bad ones are refused."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from gguf_writer import F16, Tensor, array, string, u32, write_gguf
from hypothesis import given, settings
from hypothesis import strategies as st
from imatrix_cases import METADATA, entry, image, legacy, pair, small, small_image

from orin_llm.errors import ModelFileError, UsageError
from orin_llm.quality.imatrix import Collected, Imatrix
from orin_llm.quality.imatrix_file import read_imatrix, write_imatrix

SMALL = small_image().data + bytes(-len(small_image().data) % 32)  # its end is aligned too


def same(a: Imatrix, b: Imatrix) -> bool:
    values = [
        [(n, e.sums.tolist(), e.counts.tolist()) for n, e in m.entries.items()] for m in (a, b)
    ]
    rest = [(m.datasets, m.chunk_count, m.chunk_size, m.is_legacy, m.collected) for m in (a, b)]
    return values[0] == values[1] and rest[0] == rest[1]


def read(path: Path, data: bytes) -> Imatrix:
    path.write_bytes(data)
    return read_imatrix(path)


def test_a_file_is_what_the_format_says_byte_by_byte(tmp_path: Path) -> None:
    path = tmp_path / "i.gguf"
    write_imatrix(path, small())
    assert path.read_bytes() == SMALL
    assert same(read_imatrix(path), small())


def test_entries_are_written_in_the_order_of_their_names(tmp_path: Path) -> None:
    backwards = Imatrix(dict(reversed(small().entries.items())), ("a.txt",), 3, 512)
    path = tmp_path / "i.gguf"
    write_imatrix(path, backwards)
    assert path.read_bytes() == SMALL


@settings(max_examples=40)
@given(data=st.data())
def test_what_is_written_is_read_back(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.gguf"
    names = data.draw(
        st.sets(st.text("abc.012_ä", min_size=1, max_size=20), min_size=1, max_size=4)
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    entries = {}
    for name in sorted(names, key=str.encode):
        n_mat, n = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9))
        entries[name] = entry(rng.random((n_mat, n)) * 1e6, rng.integers(0, 1 << 24, n_mat))
    texts = tuple(data.draw(st.lists(st.text(max_size=9), min_size=1, max_size=3)))
    size = st.integers(0, (1 << 32) - 1)
    done = Collected("ab", "cd", data.draw(size), data.draw(size), data.draw(st.booleans()))
    written = Imatrix(entries, texts, data.draw(size), data.draw(size), collected=done)
    write_imatrix(path, written, force=True)
    assert same(read_imatrix(path), written)


def test_weights_are_means_and_1_where_no_token_went(tmp_path: Path) -> None:
    weights = read(tmp_path / "i.gguf", small_image().data).weights()
    assert weights["blk.0.ffn_up.weight"].tolist() == [3 / 1536, 6 / 1536, 0, 1.5 / 1536]
    experts = weights["blk.0.ffn_up_exps.weight"]
    nine = np.float32(9)
    assert experts.dtype == np.float32
    assert experts.tolist() == [0.25, 0.5, 1, 1, np.float32(5) / nine, np.float32(7) / nine]


def test_the_older_format_is_read_and_divided_by_its_windows(tmp_path: Path) -> None:
    path = tmp_path / "i.dat"
    matrix = read(path, legacy({"b": ([2.0, 4.0, 1.0], 3), "a": ([7.0, 5.0], 0)}))
    assert list(matrix.entries) == ["a", "b"]
    assert (matrix.datasets, matrix.chunk_count, matrix.is_legacy) == (("a.txt",), 3, True)
    weights = matrix.weights()
    third = np.float32(3)
    assert weights["b"].tolist() == [np.float32(2) / third, np.float32(4) / third, 1 / third]
    assert weights["a"].tolist() == [7, 5]  # of a file that says nothing of windows


def test_a_file_larger_than_any_matrix_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "i.gguf"
    path.write_bytes(small_image().data)
    os.truncate(path, (1 << 33) + 1)
    with pytest.raises(ModelFileError, match="too many for an importance matrix"):
        read_imatrix(path)


def test_the_end_of_the_older_format_may_be_missing(tmp_path: Path) -> None:
    data = legacy({"a": ([1.0], 2)}, text="")
    assert read(tmp_path / "a", data).datasets == ()
    assert read(tmp_path / "b", data[:-8]).chunk_count == 0


BAD = {
    "no sums": (write_gguf(METADATA, [pair("a", [[1]], [1])[1]]), "no a.in_sum2 beside it"),
    "no counts": (write_gguf(METADATA, pair("a", [[1]], [1])[:1]), "no a.counts beside it"),
    "no entries": (write_gguf(METADATA, [Tensor("a", (1,))]), "no tensor's name ends in .in_sum2"),
    "nan": (image({"a": ([[float("nan")]], [1])}), "a.in_sum2: expected finite numbers"),
    "negative": (image({"a": ([[-1.0]], [1])}), "a.in_sum2: expected finite numbers"),
    "a count of nan": (image({"a": ([[1.0]], [float("nan")])}), "a.counts: expected finite"),
    "a huge count": (image({"a": ([[1.0]], [1e30])}), "1e+30 is no number of tokens"),
    "rows": (
        write_gguf(METADATA, [pair("a", [[1, 2, 3]], [1])[0], pair("a", [[1]], [1, 1])[1]]),
        "3 sums are not rows of the same size for 2 counts",
    ),
    "f16": (
        write_gguf(METADATA, [Tensor("a.in_sum2", (2,), F16), pair("a", [[1]], [1])[1]]),
        "of type F16, expected F32",
    ),
    **{
        f"no {key}": (
            image({"a": ([[1]], [1])}, {k: v for k, v in METADATA.items() if k != key}),
            f"{key}: the metadata key is missing",
        )
        for key in METADATA
        if key != "general.type"
    },
    "a number as text": (
        image({"a": ([[1]], [1])}, {**METADATA, "imatrix.chunk_count": string("3")}),
        "imatrix.chunk_count: expected uint32",
    ),
    "one text": (
        image({"a": ([[1]], [1])}, {**METADATA, "imatrix.datasets": string("a")}),
        "imatrix.datasets: expected a list of string",
    ),
    "numbers as texts": (
        image({"a": ([[1]], [1])}, {**METADATA, "imatrix.datasets": array("u32", [1])}),
        "imatrix.datasets: expected a list of string",
    ),
    "half a resumable": (
        image({"a": ([[1]], [1])}, {**METADATA, "orin.imatrix.text_sha256": string("ab")}),
        "orin.imatrix.model: the metadata key is missing",
    ),
    "a list of counts": (
        image({"a": ([[1]], [1])}, {**METADATA, "imatrix.chunk_size": array("u32", [1])}),
        "imatrix.chunk_size: expected uint32",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_is_no_whole_matrix_is_refused(case: str, tmp_path: Path) -> None:
    bad, message = BAD[case]
    path = tmp_path / "i.gguf"
    with pytest.raises(ModelFileError, match=message.replace("+", r"\+")) as refused:
        read(path, bad.data)
    assert refused.value.path == str(path)


def test_files_of_other_kinds_are_refused(tmp_path: Path, tiny_model: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    others = [tmp_path, tmp_path / "missing", tmp_path / "pipe", tiny_model, Path(os.devnull)]
    for i, data in enumerate([b"", b"\n", b"some text, not a matrix", bytes(64)]):
        others.append(tmp_path / str(i))
        others[-1].write_bytes(data)
    for other in others:
        with pytest.raises(ModelFileError):
            read_imatrix(other)


LEGACY = legacy({"blk.0.a": ([1.0, 2.0], 3), "blk.0.b": ([3.0], 3)})


@pytest.mark.parametrize("n", range(4, len(LEGACY) - 14))
def test_the_older_format_cut_anywhere_in_its_entries_is_refused(n: int, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="not an importance matrix"):
        read(tmp_path / "i.dat", LEGACY[:n])


def test_absurd_numbers_in_the_older_format_are_refused(tmp_path: Path) -> None:
    for at, number in ((0, -1), (0, 1 << 30), (4, -5), (4, 1 << 30), (19, 0), (19, 1 << 30)):
        data = bytearray(LEGACY)
        struct.pack_into("<i", data, at, number)
        with pytest.raises(ModelFileError, match="not an importance matrix"):
            read(tmp_path / "i.dat", bytes(data))
    with pytest.raises(ModelFileError, match=r"blk\.0\.a is there twice"):
        read(tmp_path / "i.dat", LEGACY.replace(b"blk.0.b", b"blk.0.a"))


@settings(max_examples=150)
@given(
    data=st.sampled_from([small_image().data, LEGACY]),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    cut=st.integers(0, 200),
)
def test_a_damaged_file_is_read_or_refused_but_nothing_else(
    data: bytes, changes: list[tuple[int, int]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    damaged = bytearray(data)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    try:
        matrix = read(path, bytes(damaged[: len(damaged) - cut]))
    except ModelFileError as error:
        assert str(path) in str(error)
    else:
        for weights in matrix.weights().values():
            assert np.isfinite(weights).all()


def test_an_existing_file_is_kept_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "i.gguf"
    path.write_bytes(b"mine")
    with pytest.raises(UsageError, match="exists"):
        write_imatrix(path, small())
    assert path.read_bytes() == b"mine"
    write_imatrix(path, small(), force=True)
    assert same(read_imatrix(path), small())


def test_a_matrix_without_a_text_says_so(tmp_path: Path) -> None:
    # llama.cpp's tools want the key, and a list that is not empty.
    path = tmp_path / "i.gguf"
    write_imatrix(path, Imatrix(small().entries, (), 3, 512))
    assert read_imatrix(path).datasets == ("unknown",)


def test_a_file_may_have_other_keys(tmp_path: Path) -> None:
    data = image({"a": ([[1]], [1])}, {**METADATA, "x.y": u32(1), "general.name": string("n")})
    assert list(read(tmp_path / "i.gguf", data.data).entries) == ["a"]


def test_a_name_too_long_for_the_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="63 bytes"):
        write_imatrix(tmp_path / "i.gguf", Imatrix({"x" * 60: entry([[1]], [1])}, (), 1, 1))
    assert not list(tmp_path.iterdir())
