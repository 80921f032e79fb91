"""The emulated GPU behind ggml: what is queued, captured and waited for is as with CUDA."""

from __future__ import annotations

import pytest
from gpu.emulated import EmulatedGpu


@pytest.mark.parametrize(
    "promise",
    [
        "queued nodes do not change",
        "a launcher reads the host only when it is captured",
        "tables for RoPE on the CPU are not looked at",
        "pinned memory is read when the copy is made",
        "a backend waits for the event of another",
    ],
)
def test_what_cuda_does_is_done(emulated: EmulatedGpu, promise: str) -> None:
    assert emulated.check(promise) == ""


def test_graphs_are_run_captured_and_replayed_as_by_ggml(emulated: EmulatedGpu) -> None:
    assert emulated.check("graphs are captured when nothing has changed") == ""
    counted = emulated.counters()
    assert counted["graphs_run_eagerly"] == 2
    assert counted["graphs_captured"] == 2
    assert counted["graphs_replayed"] == 3
