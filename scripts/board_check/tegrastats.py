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
from checking.command import started
from orin_llm.device.board import read_board
from orin_llm.device.clocks import reaches
from orin_llm.device.reading import Reading
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
    errors = target.folder / "logs" / f"{path.stem}.err"
    errors.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("wb") as out,
        errors.open("wb") as err,
        started(command, stdout=out, stderr=err) as process,
    ):
        _wait_for_a_line(path, process)
        yield True


def _wait_for_a_line(path: Path, process: subprocess.Popen[bytes]) -> None:
    """It takes a moment to print; what is measured may take less."""
    end = time.monotonic() + _FIRST_LINE_S
    while not path.stat().st_size and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)


def _missing(reading: Reading) -> list[str]:
    return [name for name in _TOLD if getattr(reading, name) in (None, (), {})]


def what_lines_say(target: Target, path: Path, *, under_load: bool = False) -> dict[str, Any]:
    """Arguments for `judged`: whether all is understood, clocks and power."""
    module = read_board(target.root).module
    text = path.read_text(errors="replace") if path.exists() else ""
    lines = text.rpartition("\n")[0].splitlines()  # without one that is cut off
    readings = [parse_tegrastats(line, 0.0, module) for line in lines]
    unread = sorted({word for reading in readings for word in reading.unknown})
    lacking = [line for line, one in zip(lines, readings, strict=True) if _missing(one)]
    missing = sorted({name for one in readings for name in _missing(one)})
    emc = max((r.emc_mhz for r in readings if r.emc_mhz is not None), default=None)
    watts = max((r.power_w for r in readings if r.power_w is not None), default=None)
    gpu = max((r.gpu_percent for r in readings if r.gpu_percent is not None), default=None)
    checks = [
        check("lines of tegrastats tell cores, GPU, memory, temperatures and power",
              bool(lines) and not lacking,
              f"{len(lacking)} of {len(lines)} lines lack {', '.join(missing)}: {lacking[0][:200]}"
              if lacking else f"{len(lines)} lines", "send the archive: the lines are in it"),
    ]  # fmt: skip
    if under_load and module and module.emc_max_mhz:
        full = None if emc is None else reaches(emc, module.emc_max_mhz)
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
