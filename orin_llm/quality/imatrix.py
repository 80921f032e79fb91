"""Importance matrices: how strongly the inputs of each matrix are used, as sums over tokens.

An entry has the sums of the squared inputs of one matrix, channel by channel, and how many tokens
they are of. A tensor of experts has as many rows of sums, each with a count of its own, as experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Entry:
    """The statistics of one tensor.

    Attributes:
        sums: of squares, [n_mat, n] float32; n_mat is 1 unless experts are counted one by one.
        counts: [n_mat] int64, of tokens; in files of the older format of windows.
    """

    sums: NDArray[np.float32]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class Collected:
    """How far a collection of ours is: what resuming it needs to know.

    Attributes:
        text_sha256: of all tokens of the text, in hex.
        model: the model's fingerprint (`engine.fingerprint`).
        windows_done: the next window to read.
        windows_total: windows to read of the text.
        with_output: whether the output matrix is among the tensors, if the model has one.
    """

    text_sha256: str
    model: str
    windows_done: int
    windows_total: int
    with_output: bool


@dataclass(frozen=True)
class Imatrix:
    """An importance matrix.

    Attributes:
        entries: by the tensor's name, in the order of the names' bytes.
        datasets: the names of the texts.
        chunk_count: windows that were read.
        chunk_size: tokens in a window; 0 where it is not known (the older format).
        is_legacy: of the older format, whose sums are means times windows.
        collected: of files that `orin-llm imatrix` made from a text.
    """

    entries: Mapping[str, Entry]
    datasets: tuple[str, ...]
    chunk_count: int
    chunk_size: int
    is_legacy: bool = False
    collected: Collected | None = None

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """What quantizing weighs errors by: {tensor: [n_mat * n] mean squares}.

        In float32, as llama.cpp's quantizing tool divides; a matrix that no token went through has
        weights of 1.
        """
        return {name: self._means(entry).reshape(-1) for name, entry in self.entries.items()}

    def _means(self, entry: Entry) -> NDArray[np.float32]:
        counts = entry.counts.astype(np.float32)[:, None]
        unused = entry.sums if self.is_legacy else np.ones_like(entry.sums)
        return np.where(counts > 0, entry.sums / np.maximum(counts, np.float32(1)), unused)


def sorted_entries(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """In the order of the names' bytes, which is that of the files."""
    return {name: entries[name] for name in sorted(entries, key=_bytes)}


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
