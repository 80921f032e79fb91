"""Keys and values in the memory of the CPU."""

from __future__ import annotations

from hypothesis import given
from kv_storage_rules import CELL_BYTES, N_CELLS, ROW_BYTES, Operation, operations, run

from orin_llm import _native


@given(drawn=operations)
def test_cells_keep_what_was_written_or_copied_there(drawn: list[Operation]) -> None:
    run(_native.testing.KvStorage(on_gpu=False, row_bytes=ROW_BYTES, n_cells=N_CELLS), drawn)


def test_memory_of_the_system_grows_and_is_given_back() -> None:
    storage = _native.testing.KvStorage(on_gpu=False, row_bytes=ROW_BYTES, n_cells=N_CELLS)
    assert storage.grows and storage.committed_bytes == 0
    storage.commit(50)
    assert storage.committed_bytes == 50 * CELL_BYTES
    storage.write(0, bytes([7]) * (50 * CELL_BYTES))
    storage.give_back(20)
    assert storage.committed_bytes == 20 * CELL_BYTES
    storage.commit(50)
    assert storage.read(10, 1) == bytes([7]) * CELL_BYTES
    last_row = ROW_BYTES[-1][1]  # a page of memory is one or two of them
    assert storage.read(49, 1)[-last_row:] == bytes(last_row)
