"""Memory that grows in a reserved range of a device's addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_calls import Kernels

GRANULES = 6
CALLS = (
    "cuMemGetAllocationGranularity",
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemMap",
    "cuMemSetAccess",
)
NO_LIMIT = 1 << 20

steps = st.lists(st.tuples(st.integers(0, 4 * GRANULES), st.booleans()), max_size=8)


@pytest.fixture
def emulated(kernels: Kernels, request: pytest.FixtureRequest) -> Kernels:
    """Only where a device can be told to have little memory, or to fail."""
    if request.node.callspec.params["kernels"] == "gpu":
        pytest.skip("a GPU cannot be told to fail")
    return kernels


@given(steps=steps)
def test_memory_is_there_up_to_what_was_asked_for_and_keeps_its_content(
    kernels: Kernels, steps: list[tuple[int, bool]]
) -> None:
    there = 0
    expected = []
    for quarters, commits in steps:
        wanted = -(-quarters // 4)
        there = max(there, wanted) if commits else min(there, wanted)
        expected.append((there, "", True))
    run = kernels.memory_range(n_granules=GRANULES, steps=steps, total=NO_LIMIT, fault="")
    assert run == expected


def test_what_does_not_fit_changes_nothing(emulated: Kernels) -> None:
    steps = [(8, True), (20, True), (12, True), (4, False), (8, True)]
    run = emulated.memory_range(n_granules=GRANULES, steps=steps, total=3, fault="")
    full = "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY"
    assert run == [(2, "", True), (2, full, True), (3, "", True), (1, "", True), (2, "", True)]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_is_named_and_leaves_nothing(emulated: Kernels, call: str) -> None:
    run = emulated.memory_range(n_granules=GRANULES, steps=[(4, True)], total=NO_LIMIT, fault=call)
    assert run == [(0, f"{call}: CUDA_ERROR_INVALID_VALUE", True)]


def test_the_probe_finds_that_memory_can_be_mapped(kernels: Kernels) -> None:
    assert kernels.probe_memory_range(fault="") == ""


@pytest.mark.parametrize("call", CALLS)
def test_the_probe_names_the_call_that_fails(emulated: Kernels, call: str) -> None:
    assert emulated.probe_memory_range(fault=call) == f"{call}: CUDA_ERROR_INVALID_VALUE"
