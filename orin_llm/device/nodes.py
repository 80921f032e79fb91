"""Files in which the kernel of a Jetson tells about its GPU and memory, by their several places.

JetPack 5 has kernel 5.10 and JetPack 6 has 5.15; paths are relative to the root.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

GPU_LOAD = (  # tenths of a percent
    "sys/devices/platform/gpu.0/load",
    "sys/devices/gpu.0/load",
    "sys/devices/platform/bus@0/17000000.gpu/load",
)
GPU_CLOCK = (  # folders with cur_freq, min_freq, max_freq in Hz
    "sys/devices/17000000.ga10b/devfreq/17000000.ga10b",
    "sys/devices/platform/17000000.gpu/devfreq_dev",
    "sys/class/devfreq/17000000.ga10b",
    "sys/class/devfreq/17000000.gpu",
)
TPC_MASK = (  # a bit for each TPC of the GPU that is switched off
    "sys/devices/platform/gpu.0/tpc_pg_mask",
    "sys/devices/gpu.0/tpc_pg_mask",
)
EMC_CLOCK = "sys/kernel/debug/bpmp/debug/clk/emc"  # folder with rate, max_rate in Hz; root only
EMC_CAP = (  # Hz, as nvpmodel set it
    "sys/kernel/nvpmodel_clk_cap/emc",
    "sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
)
CPU = "sys/devices/system/cpu"


def read_text(path: Path) -> str | None:
    """The file's text without space around it; None if it cannot be read.

    A sensor of a part of the chip that is switched off refuses with an error of its own.
    """
    try:
        with path.open("rb") as file:
            return file.read(4096).decode(errors="replace").strip().strip("\0")
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """The integer in a file; None if it cannot be read or is something else."""
    text = read_text(path)
    if text is None or len(text) > 20 or not text.removeprefix("-").isdecimal():
        return None
    return int(text)


def first_int(root: Path, paths: Iterable[str]) -> int | None:
    """The integer in the first of several files that has one."""
    values = (read_int(root / path) for path in paths)
    return next((value for value in values if value is not None), None)


def cpu_list(text: str | None) -> tuple[int, ...]:
    """`0-3,8` of the kernel as numbers; empty where it is anything else."""
    numbers: list[int] = []
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal() and int(last) < 4096):
            return ()
        numbers.extend(range(int(first), int(last) + 1))
    return tuple(numbers)
