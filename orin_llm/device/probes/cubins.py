"""For which GPUs a built module has binary code, as CUDA's own tool lists it, or its headers."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from orin_llm.device.probes.fatbin import read_architectures
from orin_llm.host.programs import ask

_FOLDER = "usr/local/cuda/bin"  # where JetPack has it, often not on PATH
_TIMEOUT_S = 30
_CUBIN = re.compile(r"\.(sm_\d+[a-z]?)\.cubin\s*$", re.MULTILINE)
_LISTED = re.compile(r"^ELF file\b", re.MULTILINE)
_NO_BINARY_CODE = ("does not contain device code", "No ELF file found")


def elf_architectures(module: Path, root: Path = Path("/")) -> tuple[str, ...] | None:
    """Such as `("sm_80", "sm_87")`; empty where the module has no binary code for any GPU.

    Where `cuobjdump` is neither on PATH nor in CUDA's folder below `root`, cannot read the module,
    or names what it lists in another way, what the module's own headers say; None where they cannot
    be read either.
    """
    found = _listed(module, root)
    if found is None:
        found = read_architectures(module)
    return None if found is None else tuple(sorted(found, key=_number))


def _listed(module: Path, root: Path) -> set[str] | None:
    path = os.pathsep.join(filter(None, (os.environ.get("PATH"), str(root / _FOLDER))))
    program = shutil.which("cuobjdump", path=path)
    if program is None:
        return None
    try:
        done = ask([program, "--list-elf", str(module.absolute())], _TIMEOUT_S)
    except OSError:
        return None
    said = done.stdout + done.stderr
    if any(text in said for text in _NO_BINARY_CODE):
        return set()
    found = _CUBIN.findall(said)
    told = done.returncode == 0 and found and len(found) == len(_LISTED.findall(said))
    return set(found) if told else None


def _number(architecture: str) -> tuple[int, str]:
    return int(re.sub(r"\D", "", architecture)), architecture
