"""Calling kernels from tests, in a process of their own: here, in the emulation of tests/simt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import pybind11

TESTS = Path(__file__).parent
ROOT = TESTS.parent
SIMT = TESTS / "simt"
BUILD = ROOT / "build/simt"
CXX = os.environ.get("CXX", "c++")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FLAGS = (
    "-std=c++17",
    "-O1",
    "-g1",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-Wno-unknown-pragmas",
    *SANITIZE,
)
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"}


class KernelFailed(AssertionError):
    """A kernel raised, or a sanitizer ended its process; the message is what it said."""


def build_emulated() -> Path:
    """The module of all kernels for the emulation, compiled where something has changed."""
    folders = ((SIMT, "*.cpp"), (TESTS / "kernels", "*.cpp"), (ROOT / "cuda", "*.cu"))
    sources = [path for folder, pattern in folders for path in sorted(folder.glob(pattern))]
    includes = [
        f"-I{SIMT / 'include'}", f"-I{ROOT / 'cuda'}", f"-I{ROOT / 'cpp'}",
        f"-isystem{pybind11.get_include()}", f"-isystem{sysconfig.get_path('include')}",
    ]  # fmt: skip
    BUILD.mkdir(parents=True, exist_ok=True)

    def compile_one(source: Path) -> Path:
        result = BUILD / f"{source.parent.name}_{source.name}.o"
        flags = [*FLAGS, "-DORIN_EMULATED", *includes, "-x", "c++"]
        compile_where_changed([CXX, *flags, "-c", str(source), "-o", str(result)], result)
        return result

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources))
    module = BUILD / "orin_kernels.so"
    run_compiler([CXX, *SANITIZE, "-shared", *map(str, objects), "-o", str(module)])
    return module


def build_program(name: str) -> Path:
    """A program of tests/simt/programs."""
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / name
    sources = [SIMT / f"programs/{name}.cpp", *SIMT.glob("*.cpp")]
    command = [CXX, *FLAGS, f"-I{SIMT / 'include'}", *map(str, sources), "-o", str(program)]
    compile_where_changed(command, program)
    return program


def compile_where_changed(command: list[str], result: Path) -> None:
    """Run the compiler unless the result is newer than all that this command made it from."""
    note = result.with_name(f"{result.name}.d")
    if result.exists() and note.exists() and _is_current(result, note, command):
        return
    dependencies = result.with_name(f"{result.name}.make")
    run_compiler([*command, "-MD", "-MF", str(dependencies)])
    names = dependencies.read_text().replace("\\\n", " ").split()[1:]
    note.write_text(json.dumps({"command": command, "sources": names}))


def _is_current(result: Path, note: Path, command: list[str]) -> bool:
    made = json.loads(note.read_text())
    if made["command"] != command:
        return False
    paths = [Path(name) for name in made["sources"]]
    built_ns = result.stat().st_mtime_ns
    return all(path.exists() and path.stat().st_mtime_ns <= built_ns for path in paths)


def run_compiler(command: list[str]) -> None:
    """Run it; a warning is a failure."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


class Kernels:
    """The kernels of a module: `kernels.affine(x=…)`.

    A process that a sanitizer has ended is started again for the next call.
    """

    def __init__(self, module: Path, preload: tuple[str, ...] = ()) -> None:
        self._module, self._preload = module, preload
        self._process: subprocess.Popen[str] | None = None
        self._connection: Connection | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)  # what libraries look for in any object
        return lambda **arguments: self._call(name, arguments)

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        if self._connection is None:
            self._start()
        assert self._connection is not None and self._process is not None
        try:
            self._connection.send((name, arguments))
            well, result = self._connection.recv()
        except (EOFError, ConnectionError):
            said = self._process.communicate()[1]
            self._connection.close()
            self._connection = None
            raise KernelFailed(said) from None
        if not well:
            raise KernelFailed(result)
        return result

    def _start(self) -> None:
        environment = {**os.environ, **ENVIRONMENT, "LD_PRELOAD": ":".join(self._preload)}
        with (
            tempfile.TemporaryDirectory() as folder,
            Listener(f"{folder}/socket", "AF_UNIX") as there,
        ):
            command = [sys.executable, str(TESTS / "kernels/worker.py"), str(self._module)]
            self._process = subprocess.Popen(
                [*command, str(there.address)], env=environment, stderr=subprocess.PIPE, text=True
            )
            self._connection = there.accept()

    def close(self) -> None:
        if self._connection is not None and self._process is not None:
            self._connection.close()
            self._process.communicate()


def sanitizer_libraries() -> tuple[str, ...]:
    """What has to be loaded before a program that was built without sanitizers."""
    found = [
        subprocess.run(
            [CXX, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    return tuple(found)
