"""A prefix cache with rows in it but no model that computes them: what saving a state asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from orin_llm._native import PagedKv, check_gguf
from orin_llm.engine import EngineConfig
from orin_llm.engine.loaded_model import file_identity

FILL = 0  # a token behind those asked for: a prefix is never the whole prompt


class KvShelf:
    """Rows by page, found by the page pool of the core. `rows` are what a model would compute."""

    def __init__(
        self, model: Path, config: EngineConfig, *, row_bytes: int = 24, n_pages: int = 1024
    ) -> None:
        self.config = config
        self.model_path = model
        self.model_file = file_identity(model)
        self.header = check_gguf(model)
        self.n_ctx = config.n_ctx
        self.n_vocab = 256
        self.kv_row_bytes = row_bytes
        size = config.page_size
        self.kv = PagedKv(n_pages=n_pages, page_size=size, max_tokens=self.n_ctx + size)
        self._cells = np.zeros((n_pages * size, row_bytes), np.uint8)

    def compute(self, tokens: Sequence[int]) -> np.ndarray:
        """Put rows for the tokens, as a request does; what fills no page is gone."""
        text = ",".join(map(str, tokens)).encode()
        rows = np.random.default_rng(list(text)).integers(
            0, 256, (len(tokens), self.kv_row_bytes), np.uint8
        )
        self._put(tokens, 0, rows)
        return rows

    def n_cached(self, tokens: Sequence[int]) -> int:
        return self.kv.match_prefix([*tokens, FILL])[0]

    def read_kv(self, tokens: Sequence[int], first: int, n: int) -> bytes:
        end = min(self.n_cached(tokens), first + n)
        return self._cells[self._cells_of(tokens, first, end)].tobytes()

    def write_kv(self, tokens: Sequence[int], first: int, data: bytes) -> int:
        self._put(tokens, first, np.frombuffer(data, np.uint8).reshape(-1, self.kv_row_bytes))
        return self.n_cached(tokens)

    def _put(self, tokens: Sequence[int], first: int, rows: np.ndarray) -> None:
        sequence = self.kv.open()
        adopted = self.kv.adopt_prefix(sequence, [*tokens[:first], FILL])
        assert adopted == first, "the rows before are not there"
        end = first + len(rows)
        if self.kv.append(sequence, list(tokens[first:end])):
            cells = [self.kv.cell(sequence, place) for place in range(first, end)]
            self._cells[cells] = rows
            self.kv.commit(sequence)
        self.kv.close(sequence)

    def _cells_of(self, tokens: Sequence[int], first: int, end: int) -> list[int]:
        sequence = self.kv.open()
        self.kv.adopt_prefix(sequence, [*tokens[: max(end, 0)], FILL])
        cells = [self.kv.cell(sequence, place) for place in range(first, end)]
        self.kv.close(sequence)
        return cells
