"""Importance matrices of several texts, or of parts of one, put together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from orin_llm.errors import OrinError
from orin_llm.quality.imatrix import Entry, Imatrix, sorted_entries

_MOST_CHUNKS = 2**32 - 1  # that a file can say


def merge(matrices: Iterable[tuple[str, Imatrix]], chunk_size: int) -> Imatrix:
    """The sums and counts of all, added as llama.cpp's tool adds them.

    Args:
        matrices: each with the name of its file, for errors and where it names no text.
        chunk_size: tokens in a window of the result, and in one of the older format's.

    Raises:
        OrinError: a tensor has other sizes in one than in another.
    """
    entries: dict[str, Entry] = {}
    datasets: list[str] = []
    for file, matrix in matrices:
        datasets += matrix.datasets or (file,)
        for name, entry in matrix.entries.items():
            new = _of_tokens(file, name, entry, chunk_size) if matrix.is_legacy else entry
            entries[name] = _add(file, name, entries[name], new) if name in entries else new
    return Imatrix(
        sorted_entries(entries), tuple(datasets), chunk_count(entries, chunk_size), chunk_size
    )


def chunk_count(entries: dict[str, Entry], chunk_size: int) -> int:
    """Windows that the tensor with the most tokens has seen: what files of the format say."""
    tokens = max((int(entry.counts.max()) for entry in entries.values()), default=0)
    return min(tokens // chunk_size, _MOST_CHUNKS)


def _of_tokens(file: str, name: str, entry: Entry, chunk_size: int) -> Entry:
    """From the older format's means times windows to sums over tokens."""
    with np.errstate(over="ignore"):
        sums = entry.sums * np.float32(chunk_size)
    _require_finite(file, name, sums)
    return Entry(sums, entry.counts * chunk_size)


def _require_finite(file: str, name: str, sums: NDArray[np.float32]) -> None:
    if not np.isfinite(sums).all():
        raise OrinError(f"{file}: the sums of {name} are too large to be added")


def _add(file: str, name: str, old: Entry, new: Entry) -> Entry:
    counts = {old.counts.size, new.counts.size}
    # One count for all matrices is an older file's.
    if old.sums.size != new.sums.size or not (len(counts) == 1 or 1 in counts):
        raise OrinError(
            f"{file}: {name} has {new.sums.size} sums and {new.counts.size} counts, in the files "
            f"before it {old.sums.size} and {old.counts.size}: they are of different models"
        )
    with np.errstate(over="ignore"):
        sums = old.sums.reshape(-1) + new.sums.reshape(-1)
    _require_finite(file, name, sums)
    return Entry(sums.reshape(max(counts), -1), old.counts + new.counts)
