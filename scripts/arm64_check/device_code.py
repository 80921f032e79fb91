"""What the extension with CUDA holds for the board's GPU, and where it looks for libraries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from arm64_check.steps import CheckFailed, Found, run_program
from checking.checkout import ROOT
from native.mangled import plain_name
from orin_llm.host.toml_file import read_toml

ARCHITECTURE = "sm_87"
# Of llama.cpp: what a step of a quantized model runs, whatever the model.
LLAMA_KERNELS = ("mul_mat_q", "mul_mat_vec_q", "quantize_q8_1", "rms_norm_f32", "k_get_rows")

_LISTED = re.compile(r"^(?:ELF|PTX) file\s+\d+: \S+\.(sm_\w+)\.(cubin|ptx)$", re.MULTILINE)
_FUNCTION = re.compile(r": x-(\S+)\.(sm_\w+)\.elf\.bin$", re.MULTILINE)
_RUNPATH = re.compile(r"\(RUNPATH\).*\[(.*)\]")


def our_kernels() -> list[str]:
    """All that are in cuda/: scripts/check_kernels.py keeps the budgets complete."""
    return list(read_toml(ROOT / "cuda/budgets.toml"))


def check(module: Path, toolkit: Path, readelf: str) -> Found:
    """How much code there is, and of how many kernels.

    Raises:
        CheckFailed: it is not all for the board's GPU, a kernel is missing, or CUDA's libraries
            would not be found.
    """
    cuobjdump = str(toolkit / "bin/cuobjdump")
    listed = "".join(
        run_program([cuobjdump, kind, str(module)], check=False).stdout
        for kind in ("--list-elf", "--list-ptx")
    )
    texts = run_program([cuobjdump, "--list-text", str(module)]).stdout
    dynamic = run_program([readelf, "--wide", "--dynamic", str(module)]).stdout
    problems = [
        *other_code(listed),
        *missing_kernels(texts, [*our_kernels(), *LLAMA_KERNELS]),
        *wrong_path(dynamic, toolkit / "lib64"),
    ]
    if problems:
        raise CheckFailed("\n  ".join([f"{module.name}:", *problems]))
    kernels = _kernels(texts)
    return {
        "architecture": ARCHITECTURE,
        "cubins": len(_LISTED.findall(listed)),
        "kernels": kernels.total(),
        "of ours": sum(kernels[name] for name in our_kernels()),
        "bytes": module.stat().st_size,
    }


def other_code(listed: str) -> Iterable[str]:
    """What is not for the board's GPU in what `cuobjdump --list-elf --list-ptx` prints."""
    found = _LISTED.findall(listed)
    if (ARCHITECTURE, "cubin") not in found:
        yield f"expected code for {ARCHITECTURE}, cuobjdump lists none"
    for name, kind in sorted(set(found) - {(ARCHITECTURE, "cubin")}):
        what = "code" if kind == "cubin" else "intermediate code"
        yield f"expected code for {ARCHITECTURE} alone, found {what} for {name}"


def missing_kernels(texts: str, expected: Iterable[str]) -> Iterable[str]:
    """Those that have no instance in what `cuobjdump --list-text` prints."""
    kernels = _kernels(texts)
    for kernel in expected:
        if not kernels[kernel]:
            yield f"the kernel {kernel} is not in its code for {ARCHITECTURE}"


def wrong_path(dynamic: str, libraries: Path) -> Iterable[str]:
    """The loader finds the toolkit's libraries without LD_LIBRARY_PATH, which comes first."""
    found = _RUNPATH.findall(dynamic)
    if found != [str(libraries)]:
        yield f"expected RUNPATH {libraries}, found {', '.join(found) or 'none'}"


def _kernels(texts: str) -> Counter[str]:
    """Instances of each."""
    return Counter(
        plain_name(mangled)
        for mangled, architecture in _FUNCTION.findall(texts)
        if architecture == ARCHITECTURE
    )
