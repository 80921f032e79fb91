"""The older file format of importance matrices, without a magic number: read only.

Little-endian: i32 entries; for each i32 length and bytes of the name, i32 windows, i32 values and
the values as f32 (mean square × windows); then, perhaps, i32 windows of all and the text's name.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from orin_llm.errors import ModelFileError
from orin_llm.quality.imatrix import Entry, Imatrix, sorted_entries

MAX_ENTRIES = 16384  # tensors that a model may have
MAX_NAME_BYTES = 63
MAX_DATASET_BYTES = 4096  # a path


def read_legacy(path: Path) -> Imatrix:
    """Raises ModelFileError for anything else."""
    with path.open("rb") as file:
        return _Reader(path, file).read()


class _Reader:
    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = path
        self._file = file
        self._left = path.stat().st_size

    def read(self) -> Imatrix:
        entries: dict[str, Entry] = {}
        for _ in range(self._number("the number of entries", 1, MAX_ENTRIES)):
            name = self._text("a tensor's name", 1, MAX_NAME_BYTES)
            if name in entries:
                self._refuse(f"the tensor {name} is there twice")
            windows = self._number(f"the windows of {name}", 0)
            n = self._number(f"the values of {name}", 1)
            values = np.frombuffer(self._bytes(4 * n, f"the values of {name}"), dtype="<f4")
            if not (np.isfinite(values).all() and (values >= 0).all()):
                self._refuse(f"values of {name} are not finite numbers of at least 0")
            entries[name] = Entry(values[None, :], np.array([windows], dtype=np.int64))
        datasets: tuple[str, ...] = ()
        chunk_count = 0
        if self._left:
            chunk_count = self._number("the number of windows", 0)
            if self._left:
                datasets = (self._text("the text's name", 0, MAX_DATASET_BYTES),)
        if self._left:
            self._refuse(f"{self._left} bytes are left behind its end")
        datasets = tuple(name for name in datasets if name)
        return Imatrix(sorted_entries(entries), datasets, chunk_count, 0, is_legacy=True)

    def _bytes(self, n: int, what: str) -> bytes:
        data = self._file.read(n) if n <= self._left else b""
        if len(data) < n:
            self._refuse(f"the file ends within {what}")
        self._left -= n
        return data

    def _number(self, what: str, least: int, most: int = 2**31 - 1) -> int:
        number = int(struct.unpack("<i", self._bytes(4, what))[0])
        if not least <= number <= most:
            self._refuse(f"{what} is {number}, expected {least} to {most}")
        return number

    def _text(self, what: str, least: int, most: int) -> str:
        n = self._number(f"the length of {what}", least, most)
        return self._bytes(n, what).decode("utf-8", "surrogateescape")

    def _refuse(self, what: str) -> NoReturn:
        raise ModelFileError(
            f"{self._path}: not an importance matrix: no GGUF file, and read as the older format "
            f"{what}",
            path=str(self._path),
        )
