"""Finds the compiler and the build tools, and says for which processor the build is."""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from native.errors import BuildError

# The Cortex-A78AE of the Orin has these; x86-64-v3 is every x86 server and desktop since 2015.
PORTABLE_FLAGS = {
    "x86_64": ("-march=x86-64-v3",),
    "aarch64": ("-march=armv8.2-a+dotprod+fp16",),
}
NATIVE_FLAGS = {"x86_64": ("-march=native",), "aarch64": ("-mcpu=native",)}

# Compiler macro -> the feature's usual name.
FEATURES = {
    "__SSE4_2__": "sse4.2",
    "__AVX__": "avx",
    "__AVX2__": "avx2",
    "__FMA__": "fma",
    "__F16C__": "f16c",
    "__BMI2__": "bmi2",
    "__AVXVNNI__": "avx_vnni",
    "__AVX512F__": "avx512f",
    "__AVX512VBMI__": "avx512_vbmi",
    "__AVX512VNNI__": "avx512_vnni",
    "__AVX512BF16__": "avx512_bf16",
    "__AMX_INT8__": "amx_int8",
    "__ARM_NEON": "neon",
    "__ARM_FEATURE_DOTPROD": "dotprod",
    "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC": "fp16",
    "__ARM_FEATURE_FP16_FML": "fp16fml",
    "__ARM_FEATURE_MATMUL_INT8": "i8mm",
    "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC": "bf16",
    "__ARM_FEATURE_SVE": "sve",
}


@dataclass(frozen=True)
class Toolchain:
    """The compilers, the build tools and the processor flags of one build."""

    cc: str
    cxx: str
    cmake: str
    ninja: str
    ccache: str | None
    machine: str  # x86_64 or aarch64
    native: bool  # for this very processor; else for the portable baseline
    arch_flags: tuple[str, ...]
    predefined: str  # every macro that the C++ compiler defines with these flags

    @property
    def cpu_flags(self) -> tuple[str, ...]:
        """Vector features that the generated code may use."""
        defined = {line.split()[1] for line in self.predefined.splitlines() if line.strip()}
        return tuple(name for macro, name in FEATURES.items() if macro in defined)

    @property
    def compiler(self) -> str:
        """First line of `c++ --version`."""
        return _version(self.cxx)

    @property
    def c_compiler(self) -> str:
        """First line of `cc --version`."""
        return _version(self.cc)


def find_toolchain() -> Toolchain:
    """Read CC, CXX and ORIN_LLM_NATIVE; raise BuildError naming what is missing."""
    cc = _need(os.environ.get("CC") or "cc", "a C compiler", "gcc")
    cxx = _need(os.environ.get("CXX") or "c++", "a C++17 compiler", "g++")
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        raise BuildError(
            f"Python's headers are missing: expected {header}."
            " On Debian or Ubuntu: apt-get install python3-dev"
        )
    machine = platform.machine()
    if machine not in PORTABLE_FLAGS:
        raise BuildError(f"cannot build for {machine}: expected x86_64 or aarch64")
    native = read_switch("ORIN_LLM_NATIVE", ("on", "off"), default="on") == "on"
    arch_flags = (NATIVE_FLAGS if native else PORTABLE_FLAGS)[machine]
    return Toolchain(
        cc=cc,
        cxx=cxx,
        cmake=_tool("cmake"),
        ninja=_tool("ninja"),
        ccache=shutil.which("ccache"),
        machine=machine,
        native=native,
        arch_flags=arch_flags,
        predefined=_output([cxx, *arch_flags, "-dM", "-E", "-x", "c++", os.devnull]),
    )


def read_switch(name: str, values: tuple[str, ...], default: str) -> str:
    """An environment variable that is one of `values`; BuildError otherwise."""
    value = (os.environ.get(name) or default).lower()
    if value not in values:
        raise BuildError(f"{name}={value}: expected {', '.join(values)}")
    return value


def jobs() -> int:
    """Compiler processes at a time: the cores we may use, at 1 GiB of memory each."""
    if own := os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL"):
        return max(1, int(own))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)), pages >> 30))


def _need(command: str, what: str, package: str) -> str:
    found = shutil.which(command)
    if found is None:
        raise BuildError(
            f"{what} is missing: no {command!r} on PATH."
            f" On Debian or Ubuntu: apt-get install {package}"
        )
    return found


def _tool(name: str) -> str:
    """The program itself where a Python package brings it, else what PATH has.

    pip's `cmake` command is a script that starts the program as a child, which would not inherit
    the lock of the build.
    """
    candidates = [sysconfig.get_path("scripts"), os.environ.get("PATH", "")]
    with contextlib.suppress(ImportError, AttributeError):
        candidates.insert(0, importlib.import_module(name).CMAKE_BIN_DIR)
    found = shutil.which(name, path=os.pathsep.join(candidates))
    if found is None:
        raise BuildError(f"{name} is missing: {sys.executable} -m pip install {name}")
    return found


def _version(compiler: str) -> str:
    return _output([compiler, "--version"]).splitlines()[0]


def _output(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed:\n{result.stderr.strip()}")
    return result.stdout
