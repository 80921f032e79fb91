"""The emulated machine, made where it is not there yet."""

from __future__ import annotations

import os
from pathlib import Path

from arm64_check.environment import ensure_environment
from arm64_check.steps import Emulated
from arm64_check.sysroot import TRIPLET, ensure_root, python_name
from checking.checkout import ROOT
from native.toolchain import find_toolchain
from orin_llm.upstream import cache_dir

# What the Cortex-A78AE has, and nothing that it lacks: Armv8.2-A with dotprod and fp16.
PROCESSOR = "cortex-a76"
_TOOLCHAIN = Path(__file__).with_name("aarch64.cmake")
_FOR_THE_BOARD = {"ORIN_LLM_NATIVE": "off", "ORIN_LLM_CUDA": "off"}


def emulated_machine() -> Emulated:
    """Raises DeviceUnavailable where it cannot be made, BuildError where a tool is missing."""
    cache = cache_dir() / "arm64"
    root = ensure_root(cache)
    emulator = ("qemu-aarch64", "-cpu", PROCESSOR, "-L", str(root))
    version = python_name(root).removeprefix("python").replace(".", "")
    return Emulated(
        root,
        ensure_environment(cache, root, emulator),
        emulator,
        ROOT / f"orin_llm/_native.cpython-{version}-{TRIPLET}.so",
        f"{TRIPLET}-",
        {**_FOR_THE_BOARD, **_cross_compilers()},
    )


def _cross_compilers() -> dict[str, str]:
    """Variables with which a build takes them, and this machine's cmake and ninja."""
    host = find_toolchain()
    folders = [str(Path(program).parent) for program in (host.cmake, host.ninja)]
    return {
        "CC": f"{TRIPLET}-gcc",
        "CXX": f"{TRIPLET}-g++",
        "CMAKE_TOOLCHAIN_FILE": str(_TOOLCHAIN),
        "PATH": os.pathsep.join([*folders, os.environ["PATH"]]),
    }
