"""Chooses the GPUs to compile for: those of ORIN_LLM_CUDA_ARCH, or those of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from native.errors import BuildError
from orin_llm.device.architectures import parse, runs_on

_COMPATIBLE = Path("/proc/device-tree/compatible")
_ORIN = "nvidia,tegra234"
_FOR_AN_ORIN = "87-real"
_MINIMUM_CAPABILITY = 80  # times ten


def is_tegra() -> bool:
    """This machine is a Jetson, whose GPU is there whatever else is missing."""
    return "nvidia,tegra" in _compatible()


def choose_architectures() -> tuple[str, str]:
    """What to compile for, as CMake takes it, and how that was decided.

    Raises:
        BuildError: there is no GPU here to compile for, or only one that is too old.
    """
    if own := os.environ.get("ORIN_LLM_CUDA_ARCH"):
        return own, "(ORIN_LLM_CUDA_ARCH)"
    if _ORIN in _compatible():
        return _FOR_AN_ORIN, "(Orin)"
    if not (visible := _visible_gpus()):
        raise BuildError(
            "no NVIDIA GPU is visible here (nvidia-smi):"
            f" to build for another machine set ORIN_LLM_CUDA_ARCH, such as {_FOR_AN_ORIN} for an"
            " Orin"
        )
    usable = _usable(visible)
    if not usable:
        raise BuildError(
            f"the GPU has compute capability {max(visible) / 10:.1f}, expected 8.0 or newer"
        )
    return ";".join(f"{value}-real" for value in usable), "(the GPU of this machine)"


def check_setting() -> None:
    """BuildError where ORIN_LLM_CUDA_ARCH is no such list, or not one for the Orin that this is."""
    own = os.environ.get("ORIN_LLM_CUDA_ARCH")
    if not own:
        return
    named = f"ORIN_LLM_CUDA_ARCH={own}"
    for item in own.split(";"):
        parsed = parse(item)
        if parsed is None:
            raise BuildError(
                f"{named}: expected architectures such as {_FOR_AN_ORIN}, which is an Orin's,"
                " with a ; between two"
            )
        if parsed[0] < _MINIMUM_CAPABILITY:
            raise BuildError(f"{named}: expected 80 or newer; an Orin has {_FOR_AN_ORIN}")
    if _ORIN in _compatible() and not runs_on(own, "8.7", integrated=True):
        raise BuildError(
            f"{named}: this machine is an Orin, which cannot run that:"
            f" expected {_FOR_AN_ORIN} among them, or leave it unset"
        )


def gencode(architectures: str) -> list[str]:
    """nvcc's arguments for CMake's list."""
    arguments = []
    for item in architectures.split(";"):
        number, _, kind = item.partition("-")
        code = {"real": f"sm_{number}", "virtual": f"compute_{number}"}
        chosen = code.get(kind, f"[compute_{number},sm_{number}]")
        arguments.append(f"-gencode=arch=compute_{number},code={chosen}")
    return arguments


def gpus_here() -> str:
    """The compute capabilities of the GPUs here that a build could use, as text; "" for none."""
    return ", ".join(f"{value / 10:.1f}" for value in _usable(_visible_gpus()))


def _usable(capabilities: set[int]) -> list[int]:
    return sorted(value for value in capabilities if value >= _MINIMUM_CAPABILITY)


def _visible_gpus() -> set[int]:
    """Compute capabilities times ten, such as 89, as nvidia-smi tells them."""
    if shutil.which("nvidia-smi") is None:
        return set()
    result = subprocess.run(
        ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^(\d+)\.(\d)$", result.stdout, re.MULTILINE)
    return {int(major) * 10 + int(minor) for major, minor in found}


def _compatible() -> str:
    return _COMPATIBLE.read_text(errors="replace") if _COMPATIBLE.exists() else ""
