"""Keys and values in a GPU's memory: the rules of the CPU's, growth, and too little of it."""

from __future__ import annotations

import pytest
from gpu.emulated import EmulatedGpu
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kv_storage_rules import CELL_BYTES, N_CELLS, ROW_BYTES, Operation, operations, run

from orin_llm import _native
from orin_llm.errors import OrinError


def storage(n_cells: int = N_CELLS, may_grow: bool = True) -> _native.testing.KvStorage:
    return _native.testing.KvStorage(
        on_gpu=True, row_bytes=ROW_BYTES, n_cells=n_cells, may_grow=may_grow
    )


@given(drawn=operations, may_grow=st.booleans())
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_cells_keep_what_was_written_or_copied_there(
    emulated: EmulatedGpu, drawn: list[Operation], may_grow: bool
) -> None:
    run(storage(may_grow=may_grow), drawn)


def test_a_queued_copy_is_made_in_its_streams_time(emulated: EmulatedGpu) -> None:
    cells = storage()
    cells.commit(16)
    old, new = (bytes([value]) * (4 * CELL_BYTES) for value in (1, 2))
    cells.write(0, old)
    cells.copy(0, 8, 4, False)
    cells.copy(0, 12, 4, True)
    cells.write(0, new)  # not waited for: the stream is late
    cells.wait()
    assert cells.read(8, 4) == old
    assert cells.read(12, 4) == new


def test_memory_grows_by_granules_and_is_given_back(emulated: EmulatedGpu) -> None:
    free = emulated.free_memory()
    cells = storage(n_cells=4096)
    assert cells.grows and "virtual memory" in cells.how
    assert cells.committed_bytes == 0
    at_start = emulated.free_memory()
    assert free - at_start < 1 << 16  # a token of it
    cells.commit(2048)
    few = cells.committed_bytes
    assert few == at_start - emulated.free_memory()
    cells.commit(4096)
    assert few < cells.committed_bytes == at_start - emulated.free_memory()
    cells.give_back(2048)
    assert cells.committed_bytes == few == at_start - emulated.free_memory()
    del cells
    assert emulated.free_memory() == free


def test_without_growth_all_is_there_from_the_start_as_zeros(emulated: EmulatedGpu) -> None:
    cells = storage(may_grow=False)
    assert not cells.grows and cells.how == "one allocation: growth is switched off"
    all_bytes = cells.committed_bytes
    assert cells.read(0, N_CELLS) == bytes(N_CELLS * sum(k + v for k, v in ROW_BYTES))
    cells.commit(N_CELLS)
    cells.give_back(0)
    assert cells.committed_bytes == all_bytes


def test_too_little_memory_is_told_and_changes_nothing(emulated: EmulatedGpu) -> None:
    cells = storage(n_cells=4096)
    cells.commit(100)
    cells.write(0, b"x" * (100 * sum(k + v for k, v in ROW_BYTES)))
    before = cells.committed_bytes
    emulated.leave_free(3 << 20)
    pattern = r"cannot get \d+ MiB of CUDA0's memory, of which 3 MiB are free \(cuMemCreate: "
    with pytest.raises(OrinError, match=pattern + r".*--kv-memory.*--ctx-size"):
        cells.commit(4096)
    assert cells.committed_bytes == before
    cells.commit(200)
    assert cells.read(0, 100) == b"x" * (100 * sum(k + v for k, v in ROW_BYTES))


def test_where_addresses_get_no_memory_one_allocation_is_tried(emulated: EmulatedGpu) -> None:
    emulated.leave_free(0)
    with pytest.raises(
        OrinError, match=r"cannot get 1 MiB .* 0 MiB are free .*one allocation: cuM"
    ):
        storage()
