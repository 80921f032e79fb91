"""A machine as a build for CUDA finds it: toolkits, GPUs, a driver, the device tree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from native import architectures, cuda, toolkits

# $* of the last call that compiles is kept; what `compile` does then is the test's.
NVCC = """#!/bin/sh
case "$1" in
    --version) echo "Cuda compilation tools, release {version}, V{version}.68" ;;
    *) echo "$*" > "{log}"; {compile} ;;
esac
"""
ORIN = b"nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0"
_SETTINGS = (
    "CUDA_HOME", "CUDA_PATH", "CUDAARCHS", "CUDAHOSTCXX", "ORIN_LLM_CUDA", "ORIN_LLM_CUDA_ARCH",
    "ORIN_LLM_CUDA_VMM",
)  # fmt: skip


class Machine:
    """Nothing of CUDA at first; PATH has one folder, and /usr/local is another."""

    def __init__(self, work: Path, environ: pytest.MonkeyPatch) -> None:
        self.on_path = work / "bin"
        self.local = work / "local"
        self.log = work / "nvcc.log"
        self.smi_log = work / "nvidia-smi.log"
        self.on_path.mkdir()
        (self.on_path / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
        self._environ = environ
        self._root = work / "root"
        environ.setenv("PATH", str(self.on_path))
        for name in _SETTINGS:
            environ.delenv(name, raising=False)
        environ.setattr(architectures, "_ROOT", self._root)
        environ.setattr(toolkits, "_INSTALL_FOLDER", self.local)
        self.has_driver("")

    def add_nvcc(
        self, version: str = "12.6", *, to: Path | None = None, compile: str = "exit 0"
    ) -> Path:
        """A toolkit below the folder `to`, or an nvcc on PATH."""
        folder = to / "bin" if to else self.on_path
        folder.mkdir(parents=True, exist_ok=True)
        script = NVCC.format(version=version, log=self.log, compile=compile)
        return _program(folder / "nvcc", script)

    def add_gpus(self, *capabilities: str) -> None:
        """An nvidia-smi that tells of these, and notes each call in `smi_log`."""
        lines = "".join(f"echo {capability}\n" for capability in capabilities)
        self.add_smi(f"echo >>{self.smi_log}\n{lines}")

    def add_smi(self, does: str) -> None:
        _program(self.on_path / "nvidia-smi", f"#!/bin/sh\n{does}\n")

    def is_an_orin(self) -> None:
        self.is_of(ORIN)

    def is_of(self, compatible: bytes) -> None:
        """The device tree says so."""
        self.write("proc/device-tree/compatible", compatible)

    def write(self, name: str, content: bytes) -> None:
        """A file of the kernel's."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def has_driver(self, version: str) -> None:
        """One for this version of CUDA; "" for none."""
        self._environ.setattr(cuda, "driver_version", lambda: version)

    def set(self, name: str, value: object) -> None:
        """An environment variable."""
        self._environ.setenv(name, str(value))


def _program(path: Path, script: str) -> Path:
    path.write_text(script)
    path.chmod(0o755)
    return path
