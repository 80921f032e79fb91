"""Builds the extension module: llama.cpp from the cache, our C++ from this checkout.

`python -m native.module`, as scripts/build.sh calls it, rebuilds orin_llm/_native in place.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from native.cuda import CudaPlan, plan_cuda
from native.device_code import check_device_code
from native.errors import BuildError
from native.llama import (
    LlamaBuild,
    ccache_environment,
    ccache_launchers,
    ensure_llama,
    nvcc_environment,
)
from native.progress import build_lock, run_logged
from native.toolchain import Toolchain, find_toolchain, jobs
from orin_llm.errors import OrinError
from orin_llm.host.toml_file import read_toml
from orin_llm.upstream import PIN, cache_dir

ROOT = Path(__file__).resolve().parents[2]
EXTENSION_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
IN_PLACE = ROOT / "orin_llm" / f"_native{EXTENSION_SUFFIX}"


def build_module(target: Path) -> None:
    """Build the module and put it at `target`; BuildError or UpstreamError when it cannot be."""
    build_variant("native", plan_cuda(), {}, target)


def build_variant(name: str, cuda: CudaPlan, options: dict[str, str], target: Path) -> None:
    """Build with CMake options of its own, in a tree that is called `name`."""
    tools = find_toolchain()
    llama = ensure_llama(llama_build(tools, cuda))
    # One tree per Python, shared by every way to install, so that each builds only what changed.
    tree = ROOT / "build" / f"{name}-{sysconfig.get_config_var('SOABI')}"
    with build_lock(tree.with_name(f"{tree.name}.lock"), "build of orin_llm/_native") as lock:
        tree.mkdir(parents=True, exist_ok=True)
        facts = build_facts(tools, cuda)
        _write_if_changed(tree / "generated" / "build_info.h", build_info_header(facts))
        _compile(tree, llama, tools, cuda, options, lock)
        built = tree / f"_native{EXTENSION_SUFFIX}"
        if cuda.enabled:
            check_device_code(built, cuda.architectures)
        _install(built, target)
    print(describe(facts), file=sys.stderr)
    if cuda.idle_gpu:
        print(idle_warning(cuda), file=sys.stderr)


def llama_build(tools: Toolchain, cuda: CudaPlan) -> LlamaBuild:
    """llama.cpp as this checkout pins and patches it."""
    return LlamaBuild(
        pin=PIN,
        manifest=ROOT / "cpp" / "patches" / "manifest.toml",
        hook_include=ROOT / "cpp" / "hooks" / "include",
        toolchain=tools,
        cuda=cuda,
    )


def build_facts(tools: Toolchain, cuda: CudaPlan) -> dict[str, object]:
    """What the module tells about itself (`_native.build_info()`)."""
    project = read_toml(ROOT / "pyproject.toml")["project"]
    return {
        "version": project["version"],
        "llama_cpp": f"{PIN.package} {PIN.version}",
        "upstream_commit": PIN.upstream_commit,
        "compiler": tools.compiler,
        "cpu_flags": list(tools.cpu_flags),
        "native": tools.native,
        "cuda": cuda.enabled,
        "cuda_architectures": cuda.architectures,
        "cuda_version": cuda.version,
        "why": cuda.why,
    }


def describe(facts: dict[str, object]) -> str:
    """The one line that says what was built and why."""
    processor = "this CPU" if facts["native"] else "a portable baseline"
    device = "CPU and CUDA" if facts["cuda"] else "CPU only"
    return f"built orin_llm {facts['version']} for {processor}, {device}: {facts['why']}"


def idle_warning(cuda: CudaPlan) -> str:
    """What must not be overlooked: the last thing that a build says."""
    return (
        f"WARNING: the GPU of this machine (compute capability {cuda.idle_gpu}) stays idle: this"
        " build is for the CPU alone, for the reason above. With that mended, build again:"
        " ORIN_LLM_CUDA=on scripts/build.sh"
    )


def build_info_header(facts: dict[str, object]) -> str:
    text = json.dumps(facts, indent=4)
    return (
        "// Written by scripts/native/module.py.\n#pragma once\n\nnamespace orin {\n"
        f'inline constexpr char build_info_json[] = R"json({text})json";\n'
        "}  // namespace orin\n"
    )


def _compile(
    tree: Path,
    llama: Path,
    tools: Toolchain,
    cuda: CudaPlan,
    options: dict[str, str],
    lock: int,
) -> None:
    environment = {"CC": tools.cc, "CXX": tools.cxx, **ccache_environment(cache_dir(), ROOT)}
    definitions = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_MAKE_PROGRAM": tools.ninja,
        "ORIN_LLAMA": str(llama),
        "ORIN_PYTHON_INCLUDE": sysconfig.get_path("include"),
        "ORIN_PYBIND11_INCLUDE": str(_pybind11_headers()),
        "ORIN_EXTENSION_SUFFIX": EXTENSION_SUFFIX,
        "ORIN_ARCH_FLAGS": ";".join(tools.arch_flags),
        "ORIN_CUDA": "ON" if cuda.enabled else "OFF",
        **ccache_launchers(tools, cuda),
        **options,
    }
    if cuda.enabled:
        definitions["CMAKE_CUDA_COMPILER"] = cuda.nvcc
        definitions["CMAKE_CUDA_ARCHITECTURES"] = cuda.architectures
    log = tree / "build.log"
    log.unlink(missing_ok=True)
    command = [tools.cmake, "-G", "Ninja", "-S", str(ROOT), "-B", str(tree)]
    command += [f"-D{name}={value}" for name, value in definitions.items()]
    _forget_other_compiler(tree, tools, cuda)
    run_logged(command, log, "configuring orin_llm", environment, lock)
    command = [tools.ninja, "-C", str(tree), "-j", str(jobs())]
    run_logged(command, log, "building orin_llm", environment, lock)


def _forget_other_compiler(tree: Path, tools: Toolchain, cuda: CudaPlan) -> None:
    """CMake does not let a configured tree change its compiler: start again when it does."""
    compilers = json.dumps(
        [tools.cc, tools.cxx, tools.compiler, cuda.nvcc, cuda.version, nvcc_environment()]
    )
    known = tree / "compilers.json"
    if not known.exists() or known.read_text() != compilers:
        (tree / "CMakeCache.txt").unlink(missing_ok=True)
        shutil.rmtree(tree / "CMakeFiles", ignore_errors=True)
        known.write_text(compilers)


def _pybind11_headers() -> Path:
    """A copy of the headers in the cache.

    pip installs the build's own copy at another path each time, which would make every file
    compile again.
    """
    import pybind11

    kept = cache_dir() / "pybind11" / pybind11.__version__
    with build_lock(kept.with_name(f"{kept.name}.lock"), "copy of the pybind11 headers"):
        if not kept.exists():
            copying = kept.with_name(f"{kept.name}.partial")
            shutil.rmtree(copying, ignore_errors=True)
            shutil.copytree(pybind11.get_include(), copying)
            os.rename(copying, kept)
    return kept


def _install(built: Path, target: Path) -> None:
    """Replace, never overwrite: a running process has the old module mapped."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(target.name + ".new")
    shutil.copy2(built, new)
    os.replace(new, target)


def _write_if_changed(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main() -> int:
    return run_build(lambda: build_module(IN_PLACE))


def run_build(build: Callable[[], None]) -> int:
    """The exit status of a program that does nothing else."""
    try:
        build()
    except (BuildError, OrinError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the next build goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
