"""Chooses the GPUs to compile for: those of ORIN_LLM_CUDA_ARCH, or those of this machine."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from native.errors import BuildError
from orin_llm.device.architectures import binary, parse, runs_on
from orin_llm.device.tegra import TEGRA_GPUS, is_tegra, tegra_chip
from orin_llm.host.programs import ask

_ROOT = Path("/")
_FOR_AN_ORIN = "87-real"
_MINIMUM_CAPABILITY = 80  # times ten
_SMI_TIMEOUT_S = 15


def is_jetson() -> bool:
    """This machine's GPU is there whatever else is missing."""
    return is_tegra(_ROOT)


def visible_gpus() -> set[int]:
    """Compute capabilities times ten, such as 89, as nvidia-smi tells them.

    Empty where the choice does not depend on them.

    Raises:
        BuildError: nvidia-smi does not answer.
    """
    settled = os.environ.get("ORIN_LLM_CUDA_ARCH") or tegra_chip(_ROOT) in TEGRA_GPUS
    if settled or shutil.which("nvidia-smi") is None:
        return set()
    try:
        said = ask(
            ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], _SMI_TIMEOUT_S
        ).stdout
    except OSError as error:
        raise BuildError(
            f"no NVIDIA GPU can be used here: {error} (to build for another machine set"
            f" ORIN_LLM_CUDA_ARCH, such as {_FOR_AN_ORIN} for an Orin)"
        ) from None
    found = re.findall(r"^(\d+)\.(\d)$", said, re.MULTILINE)
    return {int(major) * 10 + int(minor) for major, minor in found}


def usable(visible: set[int]) -> list[int]:
    """Those that the kernels can be compiled for."""
    return sorted(value for value in visible if value >= _MINIMUM_CAPABILITY)


def choose_architectures(visible: set[int]) -> tuple[str, str]:
    """What to compile for, as CMake takes it, and how that was decided.

    Args:
        visible: what `visible_gpus` gives.

    Raises:
        BuildError: there is no GPU here to compile for, or only one that is too old.
    """
    if own := os.environ.get("ORIN_LLM_CUDA_ARCH"):
        return own, "(ORIN_LLM_CUDA_ARCH)"
    if tegra := _tegra_gpu():
        return f"{tegra[1]}-real", f"(the {tegra[0]})"
    if not visible and is_jetson():
        chip = tegra_chip(_ROOT) or "device tree and /sys/devices/soc0 are hidden"
        raise BuildError(
            f"which GPU it has cannot be told ({chip}): set ORIN_LLM_CUDA_ARCH, for an Orin to"
            f" {_FOR_AN_ORIN}"
        )
    if not visible:
        raise BuildError(
            "no NVIDIA GPU is visible here (nvidia-smi):"
            f" to build for another machine set ORIN_LLM_CUDA_ARCH, such as {_FOR_AN_ORIN} for an"
            " Orin"
        )
    if not usable(visible):
        raise BuildError(
            f"the GPU has compute capability {max(visible) / 10:.1f}, expected 8.0 or newer"
        )
    return ";".join(f"{value}-real" for value in usable(visible)), "(the GPU of this machine)"


def check_setting() -> None:
    """BuildError where ORIN_LLM_CUDA_ARCH is no such list, or not one for the Jetson here."""
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
    tegra = _tegra_gpu()
    if tegra and not runs_on(own, tegra[2], integrated=True):
        raise BuildError(
            f"{named}: this machine has the {tegra[0]}, which cannot run that:"
            f" expected {tegra[1]}-real among them, or leave it unset"
        )


def compiled_by_driver(architectures: str) -> bool:
    """Whether the GPU of the Jetson here runs nothing of them but what its driver compiles."""
    tegra = _tegra_gpu()
    return tegra is not None and not runs_on(binary(architectures), tegra[2], integrated=True)


def _tegra_gpu() -> tuple[str, int, str] | None:
    """Name, number and compute capability of the GPU of the Jetson here; None for no such machine.

    Raises:
        BuildError: it is too old.
    """
    known = TEGRA_GPUS.get(tegra_chip(_ROOT))
    if known is None:
        return None
    name, capability = known
    number = int(capability.replace(".", ""))
    if number < _MINIMUM_CAPABILITY:
        raise BuildError(
            f"the {name} (compute capability {capability}) is out of support: expected 8.0 or"
            " newer, as an Orin has"
        )
    return name, number, capability


def gencode(architectures: str) -> list[str]:
    """nvcc's arguments for CMake's list."""
    arguments = []
    for item in architectures.split(";"):
        number, _, kind = item.partition("-")
        code = {"real": f"sm_{number}", "virtual": f"compute_{number}"}
        chosen = code.get(kind, f"[compute_{number},sm_{number}]")
        arguments.append(f"-gencode=arch=compute_{number},code={chosen}")
    return arguments


def in_words(capabilities: list[int]) -> str:
    """Such as `8.6, 8.9`; "" for none."""
    return ", ".join(f"{value / 10:.1f}" for value in capabilities)
