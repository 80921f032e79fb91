"""The page pool through Python: arguments, exceptions and counters as the stub says."""

from __future__ import annotations

import numpy as np
import pytest

from orin_llm._native import PagedKv


def pages(page_size: int = 4, window: int = 0) -> PagedKv:
    return PagedKv(n_pages=9, page_size=page_size, max_sequences=4, max_tokens=64, window=window)


def grown(kv: PagedKv, tokens: list[int]) -> int:
    sequence = kv.open()
    assert kv.append(sequence, tokens)
    kv.commit(sequence)
    return sequence


def test_a_sequence_is_placed_computed_shared_and_found() -> None:
    kv = pages()
    first = grown(kv, list(range(10)))
    table = kv.block_table(first)
    assert table.dtype == np.int32 and table.tolist() == [1, 2, 3]
    assert [kv.cell(first, p) for p in (0, 9)] == [4, 13]
    second = kv.fork(first)
    assert kv.pages_needed(second, 1) == 1
    assert kv.append(second, [70])
    assert kv.n_tokens(second) == 11 and kv.n_committed(second) == 10
    assert kv.pending_copies() == [(3, 4, 2)]
    kv.clear_copies()
    assert kv.pending_copies() == []
    assert kv.truncate(second, 10) == 10
    kv.close(first)
    kv.close(second)
    assert kv.match_prefix(list(range(10))) == (8, 2)
    assert kv.adopt_prefix(kv.open(), list(range(10))) == 8
    kv.check()


def test_tokens_come_as_lists_or_int32_arrays() -> None:
    kv = pages()
    sequence = kv.open()
    assert kv.append(sequence, [1, 2]) and kv.append(sequence, np.array([3, 4, 5], np.int32))
    assert kv.append(sequence, np.arange(10, dtype=np.int32)[::5]) and kv.append(sequence, [])
    kv.commit(sequence)
    assert kv.n_tokens(sequence) == 7
    assert kv.match_prefix([1, 2, 3, 4, 5]) == (4, 0)


@pytest.mark.parametrize("tokens", [[2**31], np.array([1.0]), np.array([1, 2]), None, ["a"]])
def test_tokens_that_could_lose_digits_are_refused(tokens: object) -> None:
    kv = pages()
    with pytest.raises(TypeError):
        kv.append(kv.open(), tokens)  # type: ignore[arg-type]


def test_tokens_have_one_dimension() -> None:
    kv = pages()
    with pytest.raises(ValueError, match="one dimension"):
        kv.append(kv.open(), np.zeros((2, 2), np.int32))


def test_counters_are_a_dict_with_rates() -> None:
    kv = pages()
    sequence = grown(kv, list(range(6)))
    assert kv.append(sequence, [6])
    kv.commit(sequence)
    assert kv.counters() == {
        "used": 2, "cached": 0, "free": 6, "shared": 0, "tokens": 7, "lookups": 4, "misses": 2,
        "evictions": 0, "copies": 0, "prefix_queries": 0, "prefix_hits": 0, "hit_rate": 0.5,
        "fragmentation": 0.125,
    }  # fmt: skip
    assert kv.page_size == 4 and kv.available_pages == 6 and kv.committed_pages == 3
    assert PagedKv.scratch_page == 0
    assert pages().counters()["hit_rate"] == 1.0 and pages().counters()["fragmentation"] == 0.0


def test_budgets_and_full_pools_answer_false() -> None:
    kv = pages()
    sequence = grown(kv, list(range(8)))
    assert not kv.set_budget(1) and kv.set_budget(2)
    assert not kv.append(sequence, [8]) and kv.n_tokens(sequence) == 8


def test_what_only_the_cache_keeps_is_dropped() -> None:
    kv = pages()
    kv.close(grown(kv, list(range(8))))
    kv.drop_cached()
    assert kv.match_prefix(list(range(9))) == (0, 0) and kv.committed_pages == 1


def test_a_window_shows_in_the_block_table() -> None:
    kv = pages(window=4)
    assert kv.block_table(grown(kv, list(range(11)))).tolist() == [0, 0, 3]


def test_states_and_arguments_are_refused_with_their_own_exceptions() -> None:
    kv = pages()
    with pytest.raises(IndexError, match="sequence 0 is not open"):
        kv.n_tokens(0)
    sequence = grown(kv, [1, 2, 3])
    assert kv.append(sequence, [4])
    with pytest.raises(RuntimeError, match="4 tokens, 3 of them committed"):
        kv.fork(sequence)
    with pytest.raises(ValueError, match="expected 0 … 4"):
        kv.truncate(sequence, 5)
    with pytest.raises(ValueError, match="expected 0 … 64"):
        kv.append(sequence, [0] * 61)
    with pytest.raises(IndexError, match="position is 4"):
        kv.cell(sequence, 4)
    with pytest.raises(ValueError, match="page_size is 3: expected a power of two"):
        pages(page_size=3)
    with pytest.raises(TypeError):
        PagedKv(n_pages=9)  # type: ignore[call-arg]
