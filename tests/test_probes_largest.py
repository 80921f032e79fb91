"""The search for the largest size that can be had."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.device.probes import largest
from orin_llm.device.probes.largest import largest_that_fits


@given(most=st.integers(0, 10_000), step=st.integers(1, 100), limit=st.integers(0, 12_000))
def test_bisection_finds_the_largest_multiple_that_fits(most: int, step: int, limit: int) -> None:
    tried: list[int] = []

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= limit

    assert largest_that_fits(fits, most, step) == min(most, limit) // step * step
    assert all(0 < size <= most and size % step == 0 for size in tried)
    assert len(tried) == len(set(tried)) <= (most // step).bit_length() + 1


def test_a_search_that_takes_long_ends_with_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(largest.time, "monotonic", lambda: now[0])
    tried: list[int] = []

    def fits(size: int) -> bool:
        now[0] += 1
        tried.append(size)
        return size <= 600

    assert largest_that_fits(fits, most=1000, step=1, give_up_s=3) == 500
    assert tried == [1000, 500, 750]
