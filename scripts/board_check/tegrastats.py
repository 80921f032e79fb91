"""Lines of tegrastats as they are, kept while something else runs, and what they say."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from board_check.target import Target, check
from gpu_check.command import started
from orin_llm.device.board import read_board
from orin_llm.device.tegrastats_line import parse_tegrastats

_INTERVAL_MS = 500
_FIRST_LINE_S = 3.0
_TOLD = ("cores", "gpu_percent", "ram_used_bytes", "temperatures_c", "power_w")


@contextmanager
def recording(target: Target, path: Path) -> Iterator[bool]:
    """Within the block its lines go to `path`; False where this machine has none."""
    program = shutil.which("tegrastats")
    if program is None or not target.is_jetson:
        yield False
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [program, "--interval", str(_INTERVAL_MS)]
    with path.open("wb") as out, started(command, stdout=out, stderr=out) as process:
        _wait_for_a_line(path, process)
        yield True


def _wait_for_a_line(path: Path, process: subprocess.Popen[bytes]) -> None:
    """It takes a moment to print; what is measured may take less."""
    end = time.monotonic() + _FIRST_LINE_S
    while not path.stat().st_size and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)


def what_lines_say(target: Target, path: Path, *, under_load: bool = False) -> dict[str, Any]:
    """Arguments for `judged`: whether all is understood, clocks and power."""
    module = read_board(target.root).module
    text = path.read_text(errors="replace") if path.exists() else ""
    lines = text.rpartition("\n")[0].splitlines()  # without one that is cut off
    readings = [parse_tegrastats(line, 0.0, module) for line in lines]
    unread = sorted({word for reading in readings for word in reading.unknown})
    missing = [
        name for name in _TOLD if any(getattr(one, name) in (None, (), {}) for one in readings)
    ]
    emc = max((r.emc_mhz for r in readings if r.emc_mhz is not None), default=None)
    watts = max((r.power_w for r in readings if r.power_w is not None), default=None)
    gpu = max((r.gpu_percent for r in readings if r.gpu_percent is not None), default=None)
    checks = [
        check("lines of tegrastats tell cores, GPU, memory, temperatures and power",
              bool(readings) and not missing,
              f"{len(readings)} lines without {', '.join(missing)}" if missing or not readings
              else f"{len(readings)} lines", "send the archive: the lines are in it"),
    ]  # fmt: skip
    if under_load and module and module.emc_max_mhz:
        full = None if emc is None else emc >= module.emc_max_mhz
        untold = "only root may read it: watch sudo tegrastats meanwhile"
        read = untold if emc is None else f"{emc} MHz"
        checks.append(
            check("the memory's clock is at its highest under load", full, read,
                  "sudo .venv/bin/orin-llm setup apply --only emc-cap")
        )  # fmt: skip
    parts = [f"GPU {gpu:.0f} %" if gpu is not None else "", f"EMC {emc:.0f} MHz" if emc else ""]
    parts.append(f"{watts:.1f} W" if watts is not None else "")
    said = ", ".join(filter(None, parts))
    return {"said": said, "checks": checks, "words_that_are_not_read": unread}
