"""A program that reads what a machine is, from a list of files and programs and nothing else.

    python -m board_check.facts ROOT FOLDER

Texts go into FOLDER as they are; one JSON object is printed.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from orin_llm.device.board import read_board
from orin_llm.device.caps import read_caps
from orin_llm.device.stamp import read_stamp
from orin_llm.host.cpu import read_cpu
from orin_llm.host.memory import read_memory
from orin_llm.host.programs import ask

_ASK_S = 10.0
_MOST_BYTES = 1 << 16
_FILES = (
    "etc/nv_tegra_release", "etc/nvpmodel.conf", "etc/nvfancontrol.conf", "etc/os-release",
    "proc/cpuinfo", "proc/loadavg", "proc/meminfo", "proc/swaps", "proc/version",
    "proc/device-tree/compatible", "proc/device-tree/model", "usr/local/cuda/version.json",
    "var/lib/nvfancontrol/status", "var/lib/nvpmodel/status",
)  # fmt: skip
# Values of one line each, by what they belong to.
_NODES = {
    "cpu": (
        "sys/devices/system/cpu/{present,online}",
        "sys/devices/system/cpu/cpu*/cpufreq/{scaling_cur_freq,scaling_max_freq,scaling_min_freq}",
        "sys/devices/system/cpu/cpu*/cpufreq/{cpuinfo_max_freq,scaling_governor}",
        "sys/devices/system/cpu/cpu0/cpuidle/state*/{name,disable}",
    ),
    "gpu": (
        "sys/devices/platform/17000000.gpu/devfreq_dev/*_freq*",
        "sys/devices/17000000.ga10b/devfreq/17000000.ga10b/*_freq*",
        "sys/devices/platform/17000000.gpu/devfreq_dev/governor",
        "sys/devices/{platform/,}gpu.0/{load,tpc_pg_mask,railgate_enable}",
    ),
    "memory": (
        "sys/kernel/nvpmodel_clk_cap/*",
        "sys/kernel/nvpmodel_emc_cap/*",
        "sys/kernel/debug/bpmp/debug/clk/emc/{rate,min_rate,max_rate,mrq_rate_locked,state}",
        "sys/kernel/mm/transparent_hugepage/enabled",
        "proc/sys/vm/{overcommit_memory,swappiness}",
    ),
    "thermal": (
        "sys/class/thermal/thermal_zone*/{type,temp}",
        "sys/class/thermal/cooling_device*/{type,cur_state,max_state}",
    ),
    "power": (
        "sys/class/hwmon/hwmon*/name",
        "sys/class/hwmon/hwmon*/{in,curr}*_{label,input}",
        "sys/class/hwmon/hwmon*/oc*_event_cnt",
        "sys/class/hwmon/hwmon*/{rpm,pwm1,fan1_input}",
    ),
}  # fmt: skip
_PACKAGES = (
    "nvidia-l4t-core", "nvidia-jetpack", "cuda-nvcc-*", "cuda-cudart-*", "libcublas*",
    "nsight-systems*", "python3", "python3-venv", "python3-dev", "g++", "cmake",
)  # fmt: skip
_PROGRAMS: dict[str, Sequence[str]] = {
    "nvpmodel": ("nvpmodel", "-q"),
    "jetson_clocks": ("jetson_clocks", "--show"),  # tells root alone
    "nvidia-smi": (
        "nvidia-smi", "--query-gpu=name,driver_version,memory.total,compute_cap", "--format=csv",
    ),
    "nvcc": ("nvcc", "--version"),
    "nvcc_of_jetpack": ("/usr/local/cuda/bin/nvcc", "--version"),
    "gcc": ("gcc", "--version"),
    "g++": ("g++", "--version"),
    "ld": ("ld", "--version"),
    "lscpu": ("lscpu",),
    "kernel": ("uname", "-srvm"),
    "packages": ("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *_PACKAGES),
    "services": (
        "systemctl", "is-active", "nvfancontrol", "nvpmodel", "jtop", "nvzramconfig",
        "graphical.target",
    ),
    "target": ("systemctl", "get-default"),
}  # fmt: skip


def collect(root: Path, folder: Path) -> dict[str, Any]:
    """Write the texts and give the facts; what cannot be read is told with the reason."""
    folder.mkdir(parents=True, exist_ok=True)
    problems: dict[str, str] = {}
    for name in _FILES:
        _keep(folder, name.replace("/", "."), _read(root / name), f"/{name}", problems)
    for name, patterns in _NODES.items():
        lines = [f"/{path.relative_to(root)}: {_line(path)}" for path in _nodes(root, patterns)]
        _keep(folder, f"nodes.{name}", "\n".join(lines), f"nodes of {name}", problems)
    for name, command in _PROGRAMS.items():
        try:
            done = ask(command, _ASK_S)
        except OSError as error:
            problems[" ".join(command[:2])] = str(error)
            continue
        said = f"{done.stdout}{done.stderr}"
        _keep(folder, f"program.{name}", f"exit status {done.returncode}\n{said}", "", problems)
    return {
        "board": read_board(root).to_json(),
        "cpu": read_cpu(root).to_json(),
        "caps": read_caps(root).to_json(),
        "memory": read_memory(root).to_json(),
        "stamp": read_stamp(root).to_json(),
        "python": platform.python_version(),
        "libc": "-".join(platform.libc_ver()),
        "is_root": os.geteuid() == 0,
        "cuda_folders": sorted(path.name for path in root.glob("usr/local/cuda*")),
        "free_bytes": {name: shutil.disk_usage(at).free for name, at in _disks(root).items()},
        "problems": problems,
    }


def _keep(folder: Path, name: str, text: str, what: str, problems: dict[str, str]) -> None:
    if text:
        (folder / f"{name}.txt").write_text(text)
    elif what:
        problems[what] = "not there, or not readable for this user"


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace").replace("\0", "\n")
    except OSError:
        return ""


def _line(path: Path) -> str:
    return " ".join(_read(path).split())[:500] or "(nothing)"


def _nodes(root: Path, patterns: Sequence[str]) -> Iterator[Path]:
    for pattern in patterns:
        for plain in _braces(pattern):
            yield from sorted(path for path in root.glob(plain) if path.is_file())


def _braces(pattern: str) -> list[str]:
    """`a{b,c}d` is `abd` and `acd`."""
    before, opened, rest = pattern.partition("{")
    if not opened:
        return [pattern]
    choices, _, after = rest.partition("}")
    return [before + choice + end for choice in choices.split(",") for end in _braces(after)]


def _disks(root: Path) -> dict[str, Path]:
    return {"checkout": Path.cwd(), "/": root}


if __name__ == "__main__":
    print(json.dumps(collect(Path(sys.argv[1]), Path(sys.argv[2])), indent=1))
