"""The reader of whole files: its bytes are the file's, and it says where data is not sound."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from gguf_bytes import tiny_llama_bytes
from load_support import break_value, make_cold, thread_ids
from stats_support import until

from orin_llm import _native
from orin_llm.errors import ModelFileError

PIECE = 64 << 10


@pytest.fixture
def data_file(tmp_path: Path) -> Path:
    """Many more pieces than are read ahead, and a rest."""
    path = tmp_path / "data"
    path.write_bytes(np.random.default_rng(1).bytes(40 * PIECE + 123))
    return path


def read_all(reader: _native.FileReader) -> bytes:
    data = bytearray()
    for piece in reader:
        assert piece.offset == len(data)
        assert piece.nbytes == len(memoryview(piece))
        data += memoryview(piece)
    return bytes(data)


def model_file(path: Path) -> _native.GgufHeader:
    path.write_bytes(tiny_llama_bytes())
    return _native.check_gguf(path)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, PIECE - 1, PIECE, 5 * PIECE + 123])
@pytest.mark.parametrize("cached", [True, False])
def test_all_bytes_come_in_order(tmp_path: Path, size: int, cached: bool) -> None:
    path = tmp_path / "data"
    content = np.random.default_rng(size).bytes(size)
    path.write_bytes(content)
    if not cached:
        make_cold(path)
    with _native.FileReader(path, piece_bytes=PIECE) as reader:
        assert reader.size == size
        assert read_all(reader) == content


def test_reading_a_model_in_pieces_of_any_size_gives_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    header = model_file(path)
    for piece_bytes in (100, 4096, 10_000, 1 << 20):
        reader = _native.FileReader(path, header.tensors, piece_bytes=piece_bytes, threads=3)
        assert read_all(reader) == path.read_bytes()
        assert reader.invalid == []


def test_a_value_that_is_not_finite_is_found_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    header = model_file(path)
    tensor = next(t for t in header.tensors if t.type == "F32")
    at = tensor.offset + tensor.nbytes - 4
    break_value(path, at)
    reader = _native.FileReader(path, header.tensors)
    read_all(reader)
    assert reader.invalid == [(tensor.name, at)]


def test_a_file_that_shrinks_is_an_error_that_names_file_and_offset(data_file: Path) -> None:
    reader = _native.FileReader(data_file, piece_bytes=PIECE)
    next(reader)
    left = 30 * PIECE + 77
    os.truncate(data_file, left)
    with pytest.raises(ModelFileError, match="ends at byte") as caught:
        list(reader)
    assert caught.value.path == str(data_file)
    assert caught.value.offset == left


def test_a_reader_that_is_closed_has_no_threads_and_no_more_pieces(data_file: Path) -> None:
    before = thread_ids()
    reader = _native.FileReader(data_file, piece_bytes=PIECE, threads=3)
    piece = next(reader)
    assert len(thread_ids() - before) == 3
    reader.close()
    until(lambda: thread_ids() <= before, "the threads' end")
    assert list(reader) == []
    assert len(memoryview(piece)) == PIECE  # its memory is still there


def test_a_piece_cannot_be_written_to(data_file: Path) -> None:
    assert memoryview(next(_native.FileReader(data_file))).readonly


def test_threads_that_share_a_reader_get_every_piece_once(data_file: Path) -> None:
    reader = _native.FileReader(data_file, piece_bytes=PIECE)
    offsets: list[int] = []
    threads = [
        threading.Thread(target=lambda: offsets.extend(piece.offset for piece in reader))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(offsets) == list(range(0, data_file.stat().st_size, PIECE))


def test_what_is_no_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, found in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "not a regular file"),
        (fifo, "not a regular file"),
    ):
        with pytest.raises(ModelFileError, match=found) as caught:
            _native.FileReader(path)
        assert caught.value.path == str(path)


@pytest.mark.parametrize("argument", ["threads", "piece_bytes"])
def test_a_reader_without_threads_or_bytes_is_refused(data_file: Path, argument: str) -> None:
    with pytest.raises(ValueError, match="at least one"):
        _native.FileReader(data_file, **{argument: 0})
