"""Which NVIDIA GPU the machine has, without CUDA: device tree, PCI bus, driver, nvidia-smi."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orin_llm.device.tegra import TEGRA_GPUS, tegra_chip
from orin_llm.host.programs import ask
from orin_llm.host.units import is_count

_NVIDIA = "0x10de"
_SMI_TIMEOUT_S = 15
_DISPLAY_CLASSES = ("0x0300", "0x0302")  # VGA controller, 3D controller
_QUERY = "index,uuid,name,memory.total,memory.free,compute_cap,driver_version"


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        compute_capability: such as `8.7`, "" where nothing tells.
        integrated: it shares the machine's memory.
        total_bytes, free_bytes: its own memory; None where it has none or nothing tells.
    """

    name: str
    compute_capability: str
    integrated: bool
    total_bytes: int | None = None
    free_bytes: int | None = None
    driver: str = ""

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True)
class Gpus:
    """What was found: GPUs that can be used, and why one that is there cannot, or ""."""

    usable: tuple[Gpu, ...]
    problem: str = ""


def find_gpus(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> Gpus:
    """Look for NVIDIA GPUs. `root` stands for `/`."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        return Gpus((), f"GPUs are hidden by CUDA_VISIBLE_DEVICES={visible!r}")
    return _tegra(root) or _discrete(root, visible)


def _tegra(root: Path) -> Gpus | None:
    """The integrated GPU of a Jetson; None on any other machine."""
    known = TEGRA_GPUS.get(tegra_chip(root))
    if known is None:
        return None
    name, capability = known
    if not any((root / "dev" / node).exists() for node in ("nvmap", "nvgpu", "nvhost-gpu")):
        return Gpus(
            (),
            f"the {name} is not reachable from here (no /dev/nvmap): start the container "
            "with `--runtime nvidia`",
        )
    return Gpus((Gpu(name, capability, integrated=True),))


def _discrete(root: Path, visible: str | None) -> Gpus:
    rows, problem = _nvidia_smi()
    if rows:
        chosen = _visible(rows, visible)
        hidden = f"no GPU is left by CUDA_VISIBLE_DEVICES={visible!r}" if not chosen else ""
        return Gpus(tuple(_gpu(row) for row in chosen), hidden)
    drivers = sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
    if drivers:
        return Gpus(tuple(Gpu(_driver_name(path), "", integrated=False) for path in drivers))
    if _on_pci_bus(root):
        return Gpus(
            (), problem or "an NVIDIA GPU is on the PCI bus, but no driver is loaded for it"
        )
    return Gpus(())


def _nvidia_smi() -> tuple[list[list[str]], str]:
    """Rows of nvidia-smi's table, or none and what it complained of."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return [], ""
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = ask(command, _SMI_TIMEOUT_S)
    except OSError as error:
        return [], f"nvidia-smi does not answer ({error})"
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines() or ["it said nothing"]
        return [], f"nvidia-smi failed: {said[0]}"
    rows = [[field.strip() for field in line.split(",")] for line in done.stdout.splitlines()]
    return [row for row in rows if len(row) == len(_QUERY.split(","))], ""


def _visible(rows: list[list[str]], visible: str | None) -> list[list[str]]:
    """The rows that CUDA_VISIBLE_DEVICES leaves, in its order; it ends at the first unknown one."""
    if visible is None:
        return rows
    chosen = []
    for wanted in (item.strip() for item in visible.split(",")):
        match = [r for r in rows if wanted and (r[0] == wanted or r[1].startswith(wanted))]
        if not match:
            break
        chosen.append(match[0])
    return chosen


def _gpu(row: list[str]) -> Gpu:
    _, _, name, total, free, capability, driver = row
    return Gpu(
        name=name,
        compute_capability=capability if capability[:1].isdigit() else "",
        integrated=False,
        total_bytes=_mebibytes(total),
        free_bytes=_mebibytes(free),
        driver=driver,
    )


def _mebibytes(text: str) -> int | None:
    return int(text) << 20 if is_count(text) else None  # `[N/A]` where the driver does not tell


def _driver_name(path: Path) -> str:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "Model":
            return value.strip()
    return "NVIDIA GPU"


def _on_pci_bus(root: Path) -> bool:
    for device in (root / "sys/bus/pci/devices").glob("*"):
        try:
            vendor = (device / "vendor").read_text(errors="replace").strip()
            kind = (device / "class").read_text(errors="replace").strip()
        except OSError:
            continue
        if vendor == _NVIDIA and kind.startswith(_DISPLAY_CLASSES):
            return True
    return False
