"""For which GPUs a built module has binary code, as CUDA's own tool lists it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from orin_llm.host.programs import ask

_FOLDER = "usr/local/cuda/bin"  # where JetPack has it, often not on PATH
_TIMEOUT_S = 30
_CUBIN = re.compile(r"\.(sm_\d+[a-z]?)\.cubin\s*$", re.MULTILINE)
_NO_BINARY_CODE = ("does not contain device code", "No ELF file found")


def elf_architectures(module: Path, root: Path = Path("/")) -> tuple[str, ...] | None:
    """Such as `("sm_80", "sm_87")`; empty where the module has no binary code for any GPU.

    None where `cuobjdump` is neither on PATH nor in CUDA's folder below `root`, or cannot read
    the module.
    """
    path = os.pathsep.join(filter(None, (os.environ.get("PATH"), str(root / _FOLDER))))
    program = shutil.which("cuobjdump", path=path)
    if program is None:
        return None
    try:
        done = ask([program, "--list-elf", str(module.absolute())], _TIMEOUT_S)
    except OSError:
        return None
    said = done.stdout + done.stderr
    found = set(_CUBIN.findall(said))
    told = done.returncode == 0 or any(text in said for text in _NO_BINARY_CODE)
    return tuple(sorted(found, key=_number)) if told else None


def _number(architecture: str) -> tuple[int, str]:
    return int(re.sub(r"\D", "", architecture)), architecture
