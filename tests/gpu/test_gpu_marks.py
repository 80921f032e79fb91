"""What profilers of the GPU are told of a run: its range, and one for every step."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpu import emulated as harness
from gpu.emulated import EmulatedGpu
from processes import environment, run
from trace_event_format import check_events, read_trace_file

from orin_llm.trace.nsys_export import PHASES
from orin_llm.trace.record import CAPTURE_RANGE


def test_a_traced_run_lies_in_one_range_and_its_steps_in_ranges_of_their_phase(
    emulated: EmulatedGpu, small_model: Path, tmp_path: Path
) -> None:
    log = tmp_path / "nvtx.log"
    command = [sys.executable, harness.__file__, "trace", "-m", str(small_model)]
    flags = ("-p", "20", "-n", "3", "--chunk-size", "16", "--json", "-q", "--no-readings")
    done = run(
        [*command, *flags, "-o", str(tmp_path / "t.json")], env=environment(ORIN_NVTX_LOG=str(log))
    )
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    warm_up = lines[: lines.index(f"push {CAPTURE_RANGE}")]
    traced = lines[len(warm_up) + 1 : -1]
    assert lines[-1] == "pop" and f"push {CAPTURE_RANGE}" not in traced
    assert warm_up == traced  # the same steps
    assert traced[1::2] == ["pop"] * (len(traced) // 2)
    found = json.loads(done.stdout)
    check_events(read_trace_file(tmp_path / "t.json")["traceEvents"])
    for phase in PHASES:
        assert traced.count(f"push {phase}") == found[phase]["steps"] > 0
