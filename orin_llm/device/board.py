"""What machine this is: a Jetson and which module it has, or a PC with or without a GPU."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from orin_llm.device.gpu import find_gpus
from orin_llm.device.modules import Module, find_module
from orin_llm.device.tegra import is_tegra, tegra_chip

# JetPack by L4T release, from NVIDIA's release notes; the tool that comes with a release tells
# only the latter.
_JETPACK = {
    "34.1": "5.0 DP", "34.1.1": "5.0.1 DP", "35.1": "5.0.2", "35.2.1": "5.1", "35.3.1": "5.1.1",
    "35.4.1": "5.1.2", "35.5": "5.1.3", "35.6": "5.1.4", "35.6.1": "5.1.5", "36.2": "6.0 DP",
    "36.3": "6.0", "36.4": "6.1", "36.4.3": "6.2", "36.4.4": "6.2.1", "36.4.7": "6.2.1",
    "36.5": "6.2.2", "39.2": "7.2",
}  # fmt: skip
# Where a release is newer than the table, its JetPack is known at least in part.
_JETPACK_MAJOR = {34: "5.x", 35: "5.x", 36: "6.x", 38: "7.x", 39: "7.x"}
_RELEASE = re.compile(r"#\s*R(\d+)\s*\(release\),\s*REVISION:\s*(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Board:
    """The machine.

    Attributes:
        kind: a PC with an NVIDIA GPU of its own is a `pc-gpu`.
        compatible: names of board, module and chip in the device tree; empty on a PC, and in a
            container, which hides it.
        name: for people; carrier boards and firmware set it, so nothing may depend on it.
        module: None where it is not a Jetson, or nothing tells which.
        l4t: release of Jetson Linux, such as `36.4.3`; None where nothing tells.
        jetpack: the JetPack of that release, such as `6.2`, or `6.x`.
    """

    kind: Literal["jetson", "pc", "pc-gpu"]
    compatible: tuple[str, ...]
    name: str
    module: Module | None
    l4t: str | None
    jetpack: str | None

    @property
    def is_jetson(self) -> bool:
        """It has a Tegra: one memory for CPU and GPU, and NVIDIA's tools for it."""
        return self.kind == "jetson"

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def read_board(root: Path = Path("/")) -> Board:
    """Identify the machine. `root` stands for `/`."""
    compatible = tuple(filter(None, _text(root / "proc/device-tree/compatible").split("\0")))
    if not is_tegra(root):
        return _pc(root, compatible)
    module = find_module(compatible)
    model = _text(root / "proc/device-tree/model").rstrip("\0").strip()
    l4t = _l4t(_text(root / "etc/nv_tegra_release"))
    return Board(
        kind="jetson",
        compatible=compatible,
        name=model or (module.name if module else tegra_chip(root) or "Jetson"),
        module=module,
        l4t=l4t,
        jetpack=jetpack(l4t) if l4t else None,
    )


def jetpack(l4t: str) -> str | None:
    """The JetPack that ships a release of Jetson Linux, `6.x` if it is a newer one of a known line.

    `36.4.0` and `36.4` are the same release.
    """
    release = l4t.removesuffix(".0")
    if release in _JETPACK:
        return _JETPACK[release]
    return _JETPACK_MAJOR.get(int(release.split(".")[0]))


def _l4t(release: str) -> str | None:
    found = _RELEASE.search(release)
    return f"{found[1]}.{found[2]}" if found else None


def _pc(root: Path, compatible: tuple[str, ...]) -> Board:
    gpus = find_gpus(root, environ={})  # one that is hidden from this process is there all the same
    discrete = [gpu for gpu in gpus.usable if not gpu.integrated]
    # A GPU on the bus that has no driver, or whose driver fails, makes a problem.
    kind: Literal["pc", "pc-gpu"] = "pc-gpu" if discrete or gpus.problem else "pc"
    name = _text(root / "sys/class/dmi/id/product_name").strip()
    return Board(kind, compatible, name or "PC", None, None, None)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""
