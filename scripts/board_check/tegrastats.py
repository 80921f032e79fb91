"""Lines of tegrastats as they are, kept while something else runs, and what they say."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from board_check.target import Target, check
from orin_llm.device.board import read_board
from orin_llm.device.tegrastats_line import parse_tegrastats

_INTERVAL_MS = 500
_END_S = 2.0


@contextmanager
def recording(target: Target, path: Path) -> Iterator[bool]:
    """Within the block its lines go to `path`; False where this machine has none."""
    program = shutil.which("tegrastats")
    if program is None or not target.is_jetson:
        yield False
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        process = subprocess.Popen(
            [program, "--interval", str(_INTERVAL_MS)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield True
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
            return


def what_lines_say(target: Target, path: Path, *, under_load: bool = False) -> dict[str, Any]:
    """Arguments for `judged`: whether all is understood, clocks and power."""
    module = read_board(target.root).module
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    readings = [parse_tegrastats(line, 0.0, module) for line in lines if line.strip()]
    unknown = sorted({word for reading in readings for word in reading.unknown})
    emc = max((r.emc_mhz for r in readings if r.emc_mhz is not None), default=None)
    watts = max((r.power_w for r in readings if r.power_w is not None), default=None)
    gpu = max((r.gpu_percent for r in readings if r.gpu_percent is not None), default=None)
    checks = [
        check("tegrastats prints lines, and every word of them is understood",
              bool(readings) and not unknown, " ".join(unknown) or f"{len(readings)} lines",
              "send the archive: the lines are in it"),
        check("power can be read", watts is not None, f"{watts} W", "send the archive"),
    ]  # fmt: skip
    if under_load and module and module.emc_max_mhz:
        # Without root tegrastats leaves the memory's clock out.
        full = None if emc is None else emc >= module.emc_max_mhz
        checks.append(
            check("the memory's clock is at its highest under load", full, f"{emc} MHz",
                  "run with sudo to see it; sudo .venv/bin/orin-llm setup apply --only emc-cap")
        )  # fmt: skip
    parts = [f"GPU {gpu:.0f} %" if gpu is not None else "", f"EMC {emc:.0f} MHz" if emc else ""]
    parts.append(f"{watts:.1f} W" if watts is not None else "")
    return {"said": ", ".join(filter(None, parts)), "checks": checks}
