"""Files of other kinds, and things that are no files, are named for what they are."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
from gguf_cases import refused

from orin_llm._native import check_gguf
from orin_llm.errors import ModelFileError

LFS = b"""version https://git-lfs.github.com/spec/v1
oid sha256:4665df33f5b7b2f56a7ee1f8e1a2a7bb4f34b8a2b7a7c2a3f9e0a2f1f4f5c6d7
size 4920734272
"""


def _safetensors() -> bytes:
    text = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4)


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("data.pkl", b"x")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"GG", "the file ends after 2 bytes"),
        (bytes(10000), "begins with zeros"),
        (b"<!DOCTYPE html><html>", "is a web page (HTML)"),
        (b"\xef\xbb\xbf \n<HTML lang=en>", "is a web page (HTML)"),
        (LFS, "is a Git LFS pointer, not the model of 4920734272 bytes itself"),
        (_safetensors(), "is a safetensors file"),
        (_zip(), "is a ZIP archive"),
        (pickle.dumps({"a": 1}, protocol=2), "is a Python pickle"),
        (pickle.dumps({"a": 1}, protocol=4), "is a Python pickle"),
        (b'{"error": "Access to model is restricted"}', "is a JSON text"),
        (b"\x1f\x8b\x08\x00", "is compressed by gzip"),
        (b"\x28\xb5\x2f\xfd\x00", "is compressed by zstd"),
        (b"tjgg\x03\x00\x00\x00", "older than GGUF"),
        (b"FUGG\x03\x00\x00\x00", "begins with 'FUGG', expected 'GGUF'"),
        (b"\x00\x01\x02\x03", r"begins with '\x00\x01\x02\x03'"),
    ],
)
def test_a_file_of_another_kind_is_named(data: bytes, says: str, tmp_path: Path) -> None:
    error = refused(tmp_path / "model.gguf", data)
    assert says in str(error)
    assert (error.field, error.offset) == ("magic", 0)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="there is no such file"):
        check_gguf(tmp_path / "none.gguf")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"is a directory: give the \.gguf file in it"):
        check_gguf(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="is not a regular file"):
        check_gguf(tmp_path / "pipe")


def test_a_device_is_refused() -> None:
    with pytest.raises(ModelFileError, match="is not a regular file"):
        check_gguf("/dev/zero")


def test_a_path_that_is_not_utf8_is_kept_in_the_error(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.gguf")
    with pytest.raises(ModelFileError) as caught:
        check_gguf(path)
    assert caught.value.path == path
