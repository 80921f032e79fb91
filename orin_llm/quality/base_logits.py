"""A reference's log-probabilities in a file, in the format of llama.cpp's perplexity tool.

So a reference that does not fit beside the model it is compared with is run before it, here or
there. The layout, little-endian: the 8 bytes `_logits_`; int32 tokens of a window, tokens of the
vocabulary, windows; the tokens of all windows as int32, as the text has them; then for each window,
for each position that counts, a row of 16-bit words (cpp/quality/logit_stats.h).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from orin_llm import _native
from orin_llm.errors import OrinError, UsageError
from orin_llm.quality.windows import LEAST_WINDOW, Windows

MAGIC = b"_logits_"
_HEADER_BYTES = len(MAGIC) + 12
_MOST_WINDOW = 1 << 22
_MOST_VOCABULARY = 1 << 24
_MOST_TOKENS = 1 << 26  # as many as the longest text has bytes

EncodedRows = NDArray[np.uint16]


def file_bytes(windows: Windows, n_vocab: int) -> int:
    """Bytes of the file of these windows."""
    rows = len(windows) * windows.scored_per_window
    return _HEADER_BYTES + windows.tokens.nbytes + rows * 2 * _native.encoded_words(n_vocab)


class BaseLogitsWriter:
    """Writes a file: the head first, then rows in their order."""

    def __init__(self, file: BinaryIO, windows: Windows, n_vocab: int) -> None:
        self._file = file
        sizes = np.array([windows.window_tokens, n_vocab, len(windows)], "<i4")
        file.write(MAGIC + sizes.tobytes() + windows.tokens.astype("<i4").tobytes())

    def add(self, rows: EncodedRows) -> None:
        """The next rows, of `_native.encode_rows`."""
        self._file.write(rows.astype("<u2", copy=False).tobytes())


@dataclass(frozen=True)
class BaseLogits:
    """A file that was read as far as its rows.

    Attributes:
        tokens: [n_windows, window_tokens], as the text has them.
    """

    path: Path
    n_vocab: int
    tokens: NDArray[np.int32]

    @classmethod
    def read(cls, path: Path) -> BaseLogits:
        """Check a file's head and its size.

        Raises:
            OrinError: it cannot be read, is another kind of file, or is cut off.
        """
        if path.exists() and not path.is_file() and not path.is_dir():
            raise OrinError(f"{path} is no file, but a pipe or a device: its rows are read twice")
        try:
            with path.open("rb") as file:
                return cls._read(path, file)
        except OSError as error:
            raise OrinError(f"cannot read {path}: {error.strerror or error}") from error

    @classmethod
    def _read(cls, path: Path, file: BinaryIO) -> BaseLogits:
        head = file.read(_HEADER_BYTES)
        if head[: len(MAGIC)] != MAGIC:
            raise OrinError(
                f"{path} has no log-probabilities: expected a file of `perplexity --save-logits` "
                "or of llama-perplexity --kl-divergence-base"
            )
        if len(head) < _HEADER_BYTES:
            raise OrinError(f"{path} ends within its head: write it again")
        window, n_vocab, n = (int(size) for size in np.frombuffer(head, "<i4", 3, len(MAGIC)))
        if not (LEAST_WINDOW <= window <= _MOST_WINDOW and 0 < n_vocab <= _MOST_VOCABULARY):
            raise OrinError(
                f"{path} says that its windows have {window} tokens of {n_vocab}: expected "
                f"{LEAST_WINDOW} … {_MOST_WINDOW} of 1 … {_MOST_VOCABULARY}"
            )
        windows = Windows(np.empty((0, window), np.int32), None)
        per_window = 4 * window + windows.scored_per_window * 2 * _native.encoded_words(n_vocab)
        found, wanted = os.fstat(file.fileno()).st_size, _HEADER_BYTES + n * per_window
        if n * window > _MOST_TOKENS:
            raise OrinError(
                f"{path} says that it has {n} windows of {window} tokens: expected at most "
                f"{_MOST_TOKENS} tokens in all"
            )
        if n < 1 or found != wanted:
            raise OrinError(
                f"{path} has {found} bytes, {wanted} with the {n} windows it says it has: it is "
                "damaged or was not written to its end"
            )
        tokens = np.frombuffer(file.read(4 * window * n), "<i4").astype(np.int32)
        if tokens.min() < 0 or tokens.max() >= n_vocab:
            raise OrinError(f"{path} has tokens that are none of its {n_vocab}: it is damaged")
        return cls(path, n_vocab, tokens.reshape(n, window))

    def describe(self) -> dict[str, Any]:
        """What it is, as plain values."""
        return {"logits": str(self.path)}

    def windows(self, model_vocab: int, bos: int | None, most: int | None = None) -> Windows:
        """The windows to compute, as a model takes them.

        Raises UsageError: the model has another number of tokens.
        """
        if model_vocab != self.n_vocab:
            raise UsageError(
                f"{self.path} is of a model with {self.n_vocab} tokens, and this one has "
                f"{model_vocab}: only models with one vocabulary can be compared"
            )
        return Windows(self.tokens[:most], bos)

    def rows(self, block_rows: int) -> Iterator[Iterator[EncodedRows]]:
        """For each window its rows, up to `block_rows` at a time: [n, words].

        Raises OrinError where the file ends too early.
        """
        n_words = _native.encoded_words(self.n_vocab)
        n_rows = Windows(self.tokens, None).scored_per_window

        def of_window(file: BinaryIO) -> Iterator[EncodedRows]:
            for first in range(0, n_rows, block_rows):
                wanted = min(block_rows, n_rows - first) * n_words
                words = np.fromfile(file, "<u2", wanted)
                if len(words) < wanted:
                    raise OrinError(f"{self.path} has become shorter: write it again")
                yield words.astype(np.uint16, copy=False).reshape(-1, n_words)

        with self.path.open("rb") as file:
            file.seek(_HEADER_BYTES + self.tokens.nbytes)
            for _ in range(len(self.tokens)):
                yield of_window(file)
