"""Building the kernels for tests: for the emulation of tests/simt, and for the GPU that is here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path

import pybind11

from check_kernels import compile_command
from native.llama import ccache_environment
from orin_llm.host.locking import file_lock
from orin_llm.upstream import cache_dir

TESTS = Path(__file__).parent
ROOT = TESTS.parent
SIMT = TESTS / "simt"
BUILD = ROOT / "build/simt"
_INFORMATION = ("ptxas info", "    ")  # what nvcc says of each kernel
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
KERNELS = (*sorted((TESTS / "kernels").glob("*.cpp")), *sorted((ROOT / "cuda").glob("*.cu")))


def build_emulated() -> Path:
    """The module of all kernels for the emulation, compiled where something has changed."""
    command = [CXX, *FLAGS, "-DORIN_EMULATED", f"-I{SIMT / 'include'}"]
    sources = (*KERNELS, *SIMT.glob("*.cpp"))
    module = BUILD / "emulated/orin_kernels.so"
    with _alone("emulated"):
        objects = _compile_all([*command, "-x", "c++"], "emulated", sources)
        _link([CXX, *SANITIZE, "-shared", *map(str, objects)], module)
    return module


def build_cuda(architecture: str, driver: str = "-lcuda") -> Path:
    """The same module for a GPU, such as of architecture `87`, compiled where something changed.

    `driver` is how NVIDIA's driver library is linked.
    """
    nvcc = shutil.which("nvcc")
    assert nvcc is not None
    command = compile_command(nvcc, ROOT / "cuda", architecture)
    folder = f"cuda-{architecture}"
    module = BUILD / folder / "orin_kernels.so"
    with _alone(folder):
        objects = [
            *_compile_all(command, folder, [path for path in KERNELS if path.suffix == ".cu"], []),
            *_compile_all(command, folder, [path for path in KERNELS if path.suffix == ".cpp"]),
        ]
        _link([nvcc, "-shared", "-cudart=static", *map(str, objects), driver], module)
    return module


@lru_cache
def gpu_architecture() -> str:
    """Of the GPU that is here, such as `90`; "" where there is none, or no nvcc."""
    if shutil.which("nvcc") is None or shutil.which("nvidia-smi") is None:
        return ""
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    capability = done.stdout.split("\n")[0].strip()
    return capability.replace(".", "") if done.returncode == 0 else ""


def _alone(folder: str) -> AbstractContextManager[int]:
    """While it is built: tests run in several processes, and each of them builds what it needs."""
    return file_lock(BUILD / f"{folder}.lock")


def _link(command: list[str], result: Path) -> None:
    """Replace the result, never overwrite it: another process may run it."""
    new = result.with_name(f"{result.name}.new")
    run_compiler([*command, "-o", str(new)])
    os.replace(new, result)


INCLUDES = (
    f"-I{ROOT / 'cuda'}", f"-I{ROOT / 'cpp'}",
    "-isystem", pybind11.get_include(), "-isystem", sysconfig.get_path("include"),
)  # fmt: skip


def _compile_all(
    command: list[str], folder: str, sources: Iterable[Path], includes: Sequence[str] = INCLUDES
) -> list[Path]:
    (BUILD / folder).mkdir(parents=True, exist_ok=True)

    def compile_one(source: Path) -> Path:
        result = BUILD / folder / f"{source.parent.name}_{source.name}.o"
        whole = [*command, *includes, "-c", str(source), "-o", str(result)]
        compile_where_changed(whole, result)
        return result

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, sources))


def build_program(name: str) -> Path:
    """A program of tests/simt/programs."""
    sources = [SIMT / f"programs/{name}.cpp", *SIMT.glob("*.cpp")]
    program = BUILD / name
    with _alone("programs"):
        objects = _compile_all([CXX, *FLAGS, f"-I{SIMT / 'include'}"], "programs", sources)
        _link([CXX, *SANITIZE, *map(str, objects)], program)
    return program


def compile_where_changed(command: list[str], result: Path) -> None:
    """Run the compiler unless the result is newer than all that this command made it from."""
    note = result.with_name(f"{result.name}.d")
    if result.exists() and note.exists() and _is_current(result, note, command):
        return
    dependencies = result.with_name(f"{result.name}.make")
    cache = shutil.which("ccache")
    run_compiler([*([cache] if cache else []), *command, "-MD", "-MF", str(dependencies)])
    names = dependencies.read_text().replace("\\\n", " ").partition(":")[2].split()
    # Through the cache they are relative.
    note.write_text(json.dumps({"command": command, "sources": [str(ROOT / n) for n in names]}))


def _is_current(result: Path, note: Path, command: list[str]) -> bool:
    made = json.loads(note.read_text())
    if made["command"] != command:
        return False
    paths = [Path(name) for name in made["sources"]]
    built_ns = result.stat().st_mtime_ns
    return all(path.exists() and path.stat().st_mtime_ns <= built_ns for path in paths)


def run_compiler(command: list[str]) -> None:
    """Run it; a warning is a failure. With ccache, what another checkout has compiled is a hit."""
    environment = {**os.environ, **ccache_environment(cache_dir(), ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT
    )
    warnings = [line for line in done.stderr.splitlines() if not line.startswith(_INFORMATION)]
    assert done.returncode == 0 and not warnings, done.stderr


def sanitizer_libraries() -> tuple[str, ...]:
    """What has to be loaded before a program that was built without sanitizers."""
    found = [
        subprocess.run(
            [CXX, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    return tuple(found)
