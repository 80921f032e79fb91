"""Does a module that was just built have code for the GPUs that it was built for?"""

from __future__ import annotations

import re
from pathlib import Path

from native.errors import BuildError
from orin_llm.device.architectures import names, parse
from orin_llm.device.probes.cubins import elf_architectures


def check_device_code(module: Path, architectures: str) -> None:
    """Raises BuildError where an architecture of CMake's list has no binary code in the module.

    nvcc takes options from its environment, too, and there is no other sign of what they change
    until the first kernel is launched on the GPU.
    """
    found = elf_architectures(module)
    if found is None:
        return
    lacking = [name for name in _binaries(architectures) if not _has(found, name)]
    if lacking:
        raise BuildError(
            f"the module has no code for {', '.join(lacking)}, but for"
            f" {', '.join(found) or 'no GPU at all'} (cuobjdump --list-elf {module}): unset"
            " CUDAFLAGS, NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS where they name other"
            f" architectures, remove {module.parent}, and build again"
        )


def _binaries(architectures: str) -> list[str]:
    """Such as `sm_87`, of those that are not for intermediate code alone."""
    parsed = filter(None, map(parse, names(architectures)))
    return [f"sm_{number}{letter}" for number, letter, kind in parsed if kind != "virtual"]


def _has(found: tuple[str, ...], name: str) -> bool:
    """llama.cpp compiles some architectures with the features of exactly that one: sm_120a.

    Code for a family, sm_100f, is listed by cuobjdump as sm_100.
    """
    pattern = f"{name.removesuffix('f')}f?" if name.endswith("f") else f"{name}[a-z]?"
    return any(re.fullmatch(pattern, item) for item in found)
