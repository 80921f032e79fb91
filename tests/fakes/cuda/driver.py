"""The stand-in for NVIDIA's driver library: how it is compiled, set, and what it was asked."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "libcuda.c"


def compile_driver(folder: Path, *flags: str) -> Path:
    """The folder to put on LD_LIBRARY_PATH: this one."""
    library = folder / "libcuda.so.1"
    command = ["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-shared", "-fPIC", *flags]
    subprocess.run([*command, "-o", str(library), str(SOURCE)], check=True)
    return folder


@dataclass
class Driver:
    """The stand-in, as it is set by the environment of this process."""

    environ: pytest.MonkeyPatch
    log: Path

    def set(self, **variables: object) -> None:
        for name, value in variables.items():
            self.environ.setenv(f"FAKE_CUDA_{name}", str(value))

    def calls(self, name: str) -> list[int]:
        """The sizes with which a function was called."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [int(size) for call, size in lines if call == name]

    @property
    def left(self) -> int:
        """Bytes and handles that the probe still held when it gave its context back."""
        (left,) = self.calls("left")
        return left
