"""Decides whether the build has CUDA, for which GPU, and says why."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from native.errors import BuildError
from native.toolchain import read_switch

_MINIMUM_CAPABILITY = 80  # times ten
_TEGRA_ORIN = "nvidia,tegra234"
_INSTALL_FOLDER = Path("/usr/local")
_COMPATIBLE = Path("/proc/device-tree/compatible")

_PROBE = """
#include <cublas_v2.h>
#include <cuda.h>
__global__ void probe() {}
int main() { cublasHandle_t handle; probe<<<1, 1>>>(); return cublasCreate(&handle) + cuInit(0); }
"""


@dataclass(frozen=True)
class CudaPlan:
    """Whether CUDA is built, and the one sentence that says why."""

    enabled: bool
    why: str
    nvcc: str = ""
    version: str = ""
    architectures: str = ""  # as CMake takes them, such as 87-real
    vmm: bool = True  # llama.cpp's pool grows by CUDA's virtual memory, where the GPU has it


def plan_cuda() -> CudaPlan:
    """Read ORIN_LLM_CUDA (auto, on, off) and ORIN_LLM_CUDA_VMM (on, off); look at the machine.

    Under `auto` whatever is missing means a build for the CPU; under `on` it is a BuildError.
    """
    mode = read_switch("ORIN_LLM_CUDA", ("auto", "on", "off"), default="auto")
    vmm = read_switch("ORIN_LLM_CUDA_VMM", ("on", "off"), default="on") == "on"
    if mode == "off":
        return CudaPlan(False, "ORIN_LLM_CUDA=off")
    try:
        return replace(_find_cuda(), vmm=vmm)
    except BuildError as missing:
        if mode == "on":
            raise BuildError(f"ORIN_LLM_CUDA=on, but {missing}") from None
        return CudaPlan(False, str(missing))


def _find_cuda() -> CudaPlan:
    nvcc = find_nvcc()
    version = nvcc_version(nvcc)
    _probe(nvcc, version)
    architectures, chosen_by = choose_architectures()
    why = f"nvcc {version} at {nvcc}, architecture {architectures} {chosen_by}"
    return CudaPlan(True, why, nvcc, version, architectures)


def find_nvcc() -> str:
    """nvcc on PATH, below CUDA_HOME or CUDA_PATH, or where CUDA's and JetPack's packages put it."""
    on_path = shutil.which("nvcc")
    if on_path:
        return on_path
    newest_first = sorted(_INSTALL_FOLDER.glob("cuda-*"), key=_version_of, reverse=True)
    roots = [
        *(os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")),
        *map(str, (_INSTALL_FOLDER / "cuda", *newest_first)),
    ]
    for root in roots:
        if root and (candidate := shutil.which("nvcc", path=f"{root}/bin")):
            return candidate
    raise BuildError(
        "no nvcc was found (PATH, CUDA_HOME, /usr/local/cuda):"
        " install the CUDA toolkit (on a Jetson: apt-get install nvidia-jetpack)"
    )


def _version_of(folder: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", folder.name))


def nvcc_version(nvcc: str) -> str:
    result = subprocess.run([nvcc, "--version"], capture_output=True, text=True)
    release = re.search(r"release (\d+\.\d+)", result.stdout)
    if release is None:
        raise BuildError(f"{nvcc} --version did not name a release: {result.stderr.strip()}")
    return release[1]


def choose_architectures() -> tuple[str, str]:
    """What to compile for, as CMake takes it, and how that was decided."""
    if own := os.environ.get("ORIN_LLM_CUDA_ARCH"):
        return own, "(ORIN_LLM_CUDA_ARCH)"
    if _COMPATIBLE.exists() and _TEGRA_ORIN in _COMPATIBLE.read_text(errors="replace"):
        return "87-real", "(Orin)"
    capabilities = _visible_gpus()
    if not capabilities:
        raise BuildError(
            "no NVIDIA GPU is visible here (nvidia-smi):"
            " to build for another machine set ORIN_LLM_CUDA_ARCH, such as 87-real for an Orin"
        )
    usable = sorted(value for value in capabilities if value >= _MINIMUM_CAPABILITY)
    if not usable:
        raise BuildError(
            f"the GPU has compute capability {max(capabilities) / 10:.1f}, expected 8.0 or newer"
        )
    return ";".join(f"{value}-real" for value in usable), "(the GPU of this machine)"


def _visible_gpus() -> set[int]:
    """Compute capabilities times ten, such as 89."""
    if shutil.which("nvidia-smi") is None:
        return set()
    result = subprocess.run(
        ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^(\d+)\.(\d)$", result.stdout, re.MULTILINE)
    return {int(major) * 10 + int(minor) for major, minor in found}


def _probe(nvcc: str, version: str) -> None:
    """Compile and link what we need of CUDA: more honest than a list of paths."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cu"
        source.write_text(_PROBE)
        command = [nvcc, str(source), "-o", f"{folder}/probe", "-lcublas", "-lcuda"]
        result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0:
        return
    output = result.stderr + result.stdout
    dashed = version.replace(".", "-")
    for sign, what, package in (
        ("cublas", "cuBLAS (header and library)", f"libcublas-dev-{dashed}"),
        ("-lcuda", "driver library to link with", f"cuda-driver-dev-{dashed}"),
    ):
        if sign in output:
            raise BuildError(
                f"nvcc {version} ({nvcc}) has no usable {what}:"
                f" install {package} or the whole CUDA toolkit"
            )
    first_line = next(iter(output.strip().splitlines()), "no message")
    raise BuildError(f"nvcc {version} ({nvcc}) cannot compile: {first_line}")
