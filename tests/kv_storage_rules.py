"""What storage of keys and values does, wherever it is: drawn operations, checked against bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from orin_llm import _native

ROW_BYTES = [(34, 16), (18, 18), (64, 0x1000)]
CELL_BYTES = sum(k + v for k, v in ROW_BYTES)
N_CELLS = 96

Operation = tuple[str, int, int, int]

cells = st.integers(0, N_CELLS - 1)
operations = st.lists(
    st.tuples(
        st.sampled_from(["commit", "give_back", "write", "copy", "queue"]),
        cells,
        cells,
        st.integers(1, 24),
    ),
    max_size=25,
)


@dataclass
class Storage:
    """Storage beside what its cells must hold: None where that is not said."""

    native: _native.testing.KvStorage
    n_committed: int = 0
    held: list[bytes | None] = field(default_factory=lambda: [None] * N_CELLS)
    n_written: int = 0

    def run(self, operation: Operation) -> None:
        name, first, other, n = operation
        match name:
            case "commit":
                self.native.commit(first)
                self.n_committed = max(self.n_committed, first)
            case "give_back":
                self.native.wait()
                self.native.give_back(first)
                self.n_committed = min(self.n_committed, first)
                self.held[first:] = [None] * (N_CELLS - first)
            case "write":
                self._write(first, min(n, self.n_committed - first))
            case _:
                n = min(n, abs(first - other), self.n_committed - max(first, other))
                self._copy(first, other, n, queued=name == "queue")

    def _write(self, first: int, n: int) -> None:
        if n <= 0:
            return
        self.n_written += 1
        rows = [bytes([self.n_written, i]) * (CELL_BYTES // 2) for i in range(n)]
        self.native.wait()
        self.native.write(first, b"".join(rows))
        self.held[first : first + n] = rows

    def _copy(self, source: int, target: int, n: int, *, queued: bool) -> None:
        if n <= 0:
            return
        if not queued:
            self.native.wait()
        self.native.copy(source, target, n, queued)
        self.held[target : target + n] = self.held[source : source + n]

    def check(self) -> None:
        """All that was written is there, read one by one and in one piece."""
        self.native.wait()
        if self.n_committed == 0:
            return
        whole = self.native.read(0, self.n_committed)
        for cell, held in enumerate(self.held[: self.n_committed]):
            if held is not None:
                assert whole[cell * CELL_BYTES : (cell + 1) * CELL_BYTES] == held
                assert self.native.read(cell, 1) == held


def run(native: _native.testing.KvStorage, drawn: list[Operation]) -> None:
    """Run the operations, and check now and then."""
    storage = Storage(native)
    for i, operation in enumerate(drawn):
        storage.run(operation)
        if i % 5 == 0:
            storage.check()
    storage.check()
