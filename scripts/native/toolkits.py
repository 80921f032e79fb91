"""Finds CUDA toolkits, and among them the first whose code can be compiled and run here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from native.architectures import gencode
from native.errors import BuildError

_INSTALL_FOLDER = Path("/usr/local")
_MINIMUM = (12, 2)
_DRIVER_TIMEOUT_S = 20

_PROBE = """
#include <cublas_v2.h>
#include <cuda.h>
__global__ void probe() {}
int main() { cublasHandle_t handle; probe<<<1, 1>>>(); return cublasCreate(&handle) + cuInit(0); }
"""
_ASK_DRIVER = """
import ctypes
version = ctypes.c_int()
failure = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
if failure:  # a stub that a toolkit brings, to link with
    raise SystemExit(failure)
print(f"{version.value // 1000}.{version.value % 1000 // 10}")
"""


@dataclass(frozen=True)
class Toolkit:
    """A toolkit that can be used, and why those that were looked at before it cannot."""

    nvcc: str
    version: str  # such as 12.6
    passed_over: tuple[str, ...]


def find_toolkit(architectures: str, driver: str, *, driver_compiles: bool = False) -> Toolkit:
    """The first that compiles for `architectures` what a driver for CUDA `driver` ("": any) runs.

    Args:
        driver_compiles: the GPU has no code of its own among them, only intermediate code.

    Raises:
        BuildError: there is none; the message says what each lacks.
    """
    problems: list[str] = []
    found = False
    for nvcc in _candidates(problems):
        found = True
        try:
            version = nvcc_version(nvcc)
            _check_age(nvcc, version, driver, driver_compiles)
            _check_compiles(nvcc, version, architectures)
            return Toolkit(nvcc, version, tuple(problems))
        except BuildError as problem:
            problems.append(str(problem))
    raise BuildError("; ".join(problems if found else [*problems, _NONE]))


_NONE = (
    "no nvcc was found (PATH, CUDA_HOME, /usr/local/cuda):"
    " install the CUDA toolkit (on a Jetson: apt-get install nvidia-jetpack)"
)


def find_nvcc() -> str:
    """The first nvcc, whatever it can do. Raises BuildError where there is none."""
    problems: list[str] = []
    for nvcc in _candidates(problems):
        return nvcc
    raise BuildError("; ".join([*problems, _NONE]))


def _candidates(problems: list[str]) -> Iterator[str]:
    """Each nvcc once; folders that should have one and do not are told in `problems`."""
    seen = set()
    for place, folder in _places():
        nvcc = shutil.which("nvcc", path=folder)
        if nvcc is None and place:
            problems.append(f"{place} has no bin/nvcc")
        if nvcc is not None and os.path.realpath(nvcc) not in seen:
            seen.add(os.path.realpath(nvcc))
            yield nvcc


def _places() -> Iterator[tuple[str, str | None]]:
    """What is chosen by hand, then PATH, then where CUDA's and JetPack's packages put it.

    Each with a name if nvcc has to be there; the path to search, None for PATH.
    """
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if root := os.environ.get(name):
            yield f"{name}={root}", f"{root}/bin"
    yield "", None
    usual = _INSTALL_FOLDER / "cuda"
    yield str(usual) if usual.is_symlink() or usual.exists() else "", f"{usual}/bin"
    for folder in sorted(_INSTALL_FOLDER.glob("cuda-*"), key=_version_of, reverse=True):
        yield "", f"{folder}/bin"


def _version_of(folder: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", folder.name))


def nvcc_version(nvcc: str) -> str:
    """Such as 12.6."""
    try:
        result = subprocess.run([nvcc, "--version"], capture_output=True, text=True)
    except OSError as error:  # of another processor, say
        raise BuildError(f"{nvcc} cannot be started: {error.strerror}") from None
    release = re.search(r"release (\d+\.\d+)", result.stdout)
    if release is None:
        raise BuildError(f"{nvcc} --version did not name a release: {result.stderr.strip()}")
    return release[1]


def driver_version() -> str:
    """The CUDA version that the driver here is for, such as 12.6; "" where none is loaded.

    A process of its own asks: what the driver does at its start must not end the build.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK_DRIVER],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_DRIVER_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _check_age(nvcc: str, version: str, driver: str, driver_compiles: bool) -> None:
    """BuildError where it is too old, or too new for the driver.

    A driver runs binary code of any toolkit of its major version, but does not compile intermediate
    code of a newer minor one.
    """
    release = tuple(map(int, version.split(".")))
    if release < _MINIMUM:
        raise BuildError(
            f"nvcc {version} ({nvcc}) is too old: CUDA 12.2 or newer is needed"
            " (on a Jetson: JetPack 6 or newer)"
        )
    if not driver:
        return
    known = tuple(map(int, driver.split(".")))
    if known[0] < release[0]:
        raise BuildError(
            f"nvcc {version} ({nvcc}) makes code for a newer driver than the one here, which is for"
            f" CUDA {driver}: install the toolkit of CUDA {known[0]} (on a Jetson: apt-get install"
            " nvidia-jetpack), or update the driver"
        )
    if driver_compiles and known < release:
        raise BuildError(
            f"nvcc {version} ({nvcc}) makes intermediate code that the driver here, which is for"
            f" CUDA {driver}, does not compile: leave ORIN_LLM_CUDA_ARCH unset, or install the"
            f" toolkit of CUDA {driver}"
        )


def _check_compiles(nvcc: str, version: str, architectures: str) -> None:
    """Compile and link what we need of CUDA: more honest than a list of paths."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cu"
        source.write_text(_PROBE)
        command = [nvcc, str(source), "-o", f"{folder}/probe", "-lcublas", "-lcuda"]
        command += gencode(architectures)
        if host := os.environ.get("CUDAHOSTCXX"):  # as CMake does
            command.append(f"-ccbin={host}")
        result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise BuildError(_complaint(nvcc, version, result.stderr + result.stdout))


def _complaint(nvcc: str, version: str, output: str) -> str:
    """What nvcc said, in one line, and what to do."""
    name, dashed = f"nvcc {version} ({nvcc})", version.replace(".", "-")
    if unknown := re.search(r"Unsupported gpu architecture '(?:compute|sm)_(\w+)'", output):
        return (
            f"{name} does not know the architecture {unknown[1]}: another ORIN_LLM_CUDA_ARCH"
            " (an Orin: 87-real), or a newer CUDA"
        )
    for sign, what, package in (
        ("cublas", "cuBLAS (header and library)", f"libcublas-dev-{dashed}"),
        ("-lcuda", "driver library to link with", f"cuda-driver-dev-{dashed}"),
    ):
        if sign in output:
            return f"{name} has no usable {what}: install {package} or the whole CUDA toolkit"
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no message"]
    telling = next((line for line in lines if re.search(r"\b(error|fatal)\b", line)), lines[0])
    if newest := re.search(r"gcc versions later than (\d+)", telling):
        telling += f". Install g++-{newest[1]} and set CUDAHOSTCXX=g++-{newest[1]}"
    return f"{name} cannot compile: {telling}"
