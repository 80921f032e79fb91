"""Importance matrices of several texts, or of parts of one, put together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from orin_llm.errors import OrinError
from orin_llm.quality.imatrix import Entry, Imatrix, sorted_entries


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
            new = _of_tokens(entry, chunk_size) if matrix.is_legacy else entry
            entries[name] = _add(file, name, entries[name], new) if name in entries else new
    return Imatrix(
        sorted_entries(entries), tuple(datasets), chunk_count(entries, chunk_size), chunk_size
    )


def chunk_count(entries: dict[str, Entry], chunk_size: int) -> int:
    """Windows that the tensor with the most tokens has seen: what files of the format say."""
    return max((int(entry.counts.max()) for entry in entries.values()), default=0) // chunk_size


def _of_tokens(entry: Entry, chunk_size: int) -> Entry:
    """From the older format's means times windows to sums over tokens."""
    return Entry(entry.sums * np.float32(chunk_size), entry.counts * chunk_size)


def _add(file: str, name: str, old: Entry, new: Entry) -> Entry:
    counts = {old.counts.size, new.counts.size}
    # One count for all matrices is an older file's.
    if old.sums.size != new.sums.size or not (len(counts) == 1 or 1 in counts):
        raise OrinError(
            f"{file}: {name} has {new.sums.size} sums and {new.counts.size} counts, in the files "
            f"before it {old.sums.size} and {old.counts.size}: they are of different models"
        )
    sums = old.sums.reshape(-1) + new.sums.reshape(-1)
    if not np.isfinite(sums).all():
        raise OrinError(f"{file}: the sums of {name} are too large to be added")
    return Entry(sums.reshape(max(counts), -1), old.counts + new.counts)
