"""Texts that a model's quality is judged with: those that ship, and the user's own.

The texts that ship lie in `calibration/texts` of a checkout and beside this module when installed.
What calibrates (importance matrices) and what evaluates (perplexity) share no text and no topic.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from orin_llm.errors import OrinError
from orin_llm.quality.text_records import read_records
from orin_llm.text.text_input import MAX_TEXT_BYTES, read_text_file

RECORD_SUFFIXES = (".jsonl", ".ndjson")
_INSTALLED = Path(__file__).with_name("shipped_texts")
_CHECKOUT = Path(__file__).parents[2] / "calibration" / "texts"


@dataclass(frozen=True)
class Corpus:
    """Documents that are read one after the other.

    Attributes:
        name: `calibration`, `evaluation`, or the path as the user gave it.
        documents: what each file, or each record of a JSONL file, holds; none is empty.
    """

    name: str
    documents: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        """All documents, a blank line between them. One file is its own text, except that a
        newline at its end is left out, as llama.cpp's tools do.
        """
        return "\n\n".join(self.documents)

    @cached_property
    def sha256(self) -> str:
        """Of `text` in UTF-8 (hex): what identifies it in a file of statistics."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()


@cache
def calibration_text() -> Corpus:
    """The text that ships for collecting an importance matrix."""
    return _shipped("calibration")


@cache
def evaluation_text() -> Corpus:
    """The text that ships for perplexity and comparisons: held out, nothing is calibrated on it."""
    return _shipped("evaluation")


def read_text(path: Path, encoding: str | None = None) -> Corpus:
    """The user's text: a file, every file of a folder by name, or records in JSONL.

    Files whose names begin with a dot are left out, and so is what lies in such folders. A file
    whose name ends in .jsonl or .ndjson has a record a line; see `text_records`.

    Args:
        encoding: of the files, if not UTF-8 (records are always UTF-8).

    Raises:
        OrinError: a file cannot be read or is not text, a record is damaged, there is no text in
            it, or it is more than 64 MiB in all.
        UsageError: an encoding that Python does not know.
    """
    documents: list[str] = []
    size = 0
    for file in _files_of(path):
        for document in _documents_of(file, encoding):
            size += len(document)
            if size > MAX_TEXT_BYTES:
                raise OrinError(
                    f"{path} holds more than {MAX_TEXT_BYTES >> 20} MiB: give a part of it"
                )
            if document.strip():
                documents.append(document)
    if not documents:
        raise OrinError(f"{path} holds no text: nothing but white space")
    return Corpus(str(path), tuple(documents))


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(_visible_files(path))
    if not files:
        raise OrinError(f"{path} is a folder without files: expected texts in it")
    for file in files:
        if file.exists() and not file.is_file():  # a pipe, say, would be waited for
            raise OrinError(f"{file} is no ordinary file: take it out of the folder")
    return files


def _visible_files(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise OrinError(f"cannot read {error.filename}: {error.strerror}") from None

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place, name) for name in names if not name.startswith("."))


def _documents_of(file: Path, encoding: str | None) -> list[str]:
    if file.suffix.lower() in RECORD_SUFFIXES:
        return read_records(file)
    return [read_text_file(file, encoding, purpose="one text").removesuffix("\n")]


def _shipped(name: str) -> Corpus:
    folder = next((root for root in (_INSTALLED, _CHECKOUT) if root.is_dir()), _INSTALLED)
    if not (folder / name).is_dir():
        raise OrinError(f"{folder / name} is missing: install orin-llm again, or give --text")
    return Corpus(name, read_text(folder / name).documents)
