"""A file cut anywhere is refused, and the message says how much is missing."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from gguf_bytes import tiny_llama, vocab_only
from gguf_cases import SMALL, refused

from orin_llm._native import check_gguf
from orin_llm.errors import ModelFileError

MODEL = tiny_llama(**SMALL)
SMALLEST = tiny_llama(n_embd=8, n_head=2, n_head_kv=1, n_ff=8, n_vocab=8, n_layer=1)


def test_a_file_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(SMALLEST.data)
    for n in reversed(range(len(SMALLEST.data))):
        os.truncate(path, n)
        with pytest.raises(ModelFileError) as caught:
            check_gguf(path)
        assert caught.value.offset is not None
        assert caught.value.offset < n + 32  # missing data is missed from where it would start


def test_missing_data_is_counted_in_bytes(tmp_path: Path) -> None:
    total = len(MODEL.data)
    for missing in (1, 100, total - MODEL.marks["data"]):
        error = refused(tmp_path / "cut.gguf", MODEL.data[: total - missing])
        assert f"{missing} of {total} bytes are missing" in str(error)
        assert "download is unfinished" in str(error)


def test_the_first_tensor_with_missing_data_is_named(tmp_path: Path) -> None:
    name = "blk.0.ffn_up.weight"
    error = refused(tmp_path / "cut.gguf", MODEL.data[: MODEL.marks[f"{name}/data"] + 1])
    assert error.field == name
    assert error.offset == MODEL.marks[f"{name}/data"]


def test_a_cut_inside_the_metadata_names_the_key(tmp_path: Path) -> None:
    image = vocab_only()
    cut = image.marks["tokenizer.ggml.scores/value"] + 10
    error = refused(tmp_path / "cut.gguf", image.data[:cut])
    assert error.field == "tokenizer.ggml.scores"
    assert re.search(r"the file ends \d+ bytes further on", str(error))


def test_bytes_behind_the_data_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "long.gguf"
    path.write_bytes(MODEL.data + b"trailing")
    assert check_gguf(path).file_bytes == len(MODEL.data) + 8
