"""Builds the patched llama.cpp once per set of inputs, in a folder of the cache named after them.

A build happens in `<key>.partial` under a lock and is renamed to `<key>` when complete, so a folder
without the suffix is always whole. What an interruption leaves behind is resumed by ninja.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from native.cleanup import remove_unused
from native.cuda import CudaPlan
from native.patches import apply_patches, load_manifest
from native.progress import build_lock, run_logged, say
from native.toolchain import Toolchain, jobs
from orin_llm.upstream import Pin, cache_dir, extract, take_sources

PROJECT = Path(__file__).with_name("llama")

# Every backend but these two stays in the archive.
_BACKENDS = ("ggml-cpu", "ggml-cuda")
_FOLDERS = ("cmake/", "ggml/", "include/", "src/", "vendor/")
_FILES = ("CMakeLists.txt", "LICENSE")

# Key and value types of the KV cache for which CUDA attention is compiled.
_CUDA_KV_TYPES = "f16-f16;q8_0-q8_0;q4_0-q4_0"


@dataclass(frozen=True)
class LlamaBuild:
    """Everything that the libraries depend on."""

    pin: Pin
    manifest: Path
    hook_include: Path
    toolchain: Toolchain
    cuda: CudaPlan

    def options(self) -> dict[str, str]:
        """CMake options; the same as stock's but for what linking into one module needs."""
        options = {
            "CMAKE_BUILD_TYPE": "Release",
            "LLAMA_BUILD_COMMON": "OFF",
            "GGML_CCACHE": "OFF",  # we name it as the launcher ourselves
            "GGML_OPENMP": "ON",
            "GGML_NATIVE": "ON" if self.toolchain.native else "OFF",
            "GGML_CUDA": "ON" if self.cuda.enabled else "OFF",
        }
        if not self.toolchain.native:
            if self.toolchain.machine == "aarch64":
                options["GGML_CPU_ARM_ARCH"] = "armv8.2-a+dotprod+fp16"
            else:
                for feature in ("SSE42", "AVX", "AVX2", "BMI2", "FMA", "F16C"):
                    options[f"GGML_{feature}"] = "ON"
        if self.cuda.enabled:
            options |= {
                "CMAKE_CUDA_COMPILER": self.cuda.nvcc,
                "CMAKE_CUDA_ARCHITECTURES": self.cuda.architectures,
                "GGML_CUDA_NCCL": "OFF",
                "GGML_CUDA_FA_QUANTS": _CUDA_KV_TYPES,
            }
            if not self.cuda.vmm:
                options["GGML_CUDA_NO_VMM"] = "ON"
        return options

    def key(self) -> str:
        """Name of the folder: the version, and a hash over all inputs."""
        inputs = {
            "pin": asdict(self.pin),
            "patches": _contents(self.manifest.parent),
            "hook headers": _contents(self.hook_include),
            "project": _contents(PROJECT),
            "compilers": [self.toolchain.c_compiler, self.toolchain.compiler],
            "predefined": self.toolchain.predefined,
            "flags": {
                name: os.environ.get(name, "") for name in ("CFLAGS", "CXXFLAGS", "CUDAFLAGS")
            },
            **({"nvcc": nvcc_environment()} if self.cuda.enabled else {}),
            "options": self.options(),
            "cuda": self.cuda.version,
        }
        digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
        return f"{self.pin.version}-{digest[:16]}"


def ensure_llama(build: LlamaBuild, cache: Path | None = None) -> Path:
    """Return the folder with `src/` (patched, for its headers) and `lib/*.a`, built if need be."""
    cache = cache or cache_dir()
    key = build.key()
    done = cache / "llama" / key
    if done.exists():
        os.utime(done)  # what is not used for long is removed
        return done
    with build_lock(cache / "llama" / f"{key}.lock", "build of llama.cpp") as lock:
        if not done.exists():
            partial = cache / "llama" / f"{key}.partial"
            _prepare_sources(build, partial, cache)
            _compile(build, partial, cache, lock)
            _keep_libraries(partial)
            os.rename(partial, done)
            # The objects are the bulk. A kill from here on leaves garbage, not a broken build.
            shutil.rmtree(done / "build")
            remove_unused(cache / "llama", days=30)
    return done


def _prepare_sources(build: LlamaBuild, partial: Path, cache: Path) -> None:
    """Unpack, patch, then rename: `src` exists only patched as a whole."""
    source = partial / "src"
    if source.exists():
        return
    shutil.rmtree(partial, ignore_errors=True)
    patches = load_manifest(build.manifest)
    unpacking = partial / "src.unpacking"
    take_sources(is_needed, unpacking, build.pin, cache, say)
    apply_patches(patches, unpacking)
    shutil.copytree(build.hook_include, partial / "include")
    os.rename(unpacking, source)


def unpack_sources(archive: Path, into: Path) -> None:
    """Unpack what the build needs of llama.cpp, unpatched."""
    extract(archive, is_needed, into)


def is_needed(path: str) -> bool:
    """Whether the build needs this file of llama.cpp."""
    parts = path.split("/")
    if parts[:2] == ["ggml", "src"] and len(parts) > 3:
        return parts[2] in _BACKENDS
    return path in _FILES or path.startswith(_FOLDERS)


def _compile(build: LlamaBuild, partial: Path, cache: Path, lock: int) -> None:
    tools = build.toolchain
    tree = partial / "build"
    configured = partial / "configured"
    environment = {
        "CC": tools.cc,
        "CXX": tools.cxx,
        # The sources ask git for a commit: keep it from finding a repository around the cache.
        "GIT_CEILING_DIRECTORIES": str(partial.parent),
        **ccache_environment(cache, partial),
    }
    definitions = {
        **build.options(),
        "ORIN_LLAMA_SOURCE": str(partial / "src"),
        "ORIN_HOOK_INCLUDE": str(partial / "include"),
        "CMAKE_MAKE_PROGRAM": tools.ninja,
        **ccache_launchers(tools, build.cuda),
    }
    if not configured.exists():
        shutil.rmtree(tree, ignore_errors=True)
        command = [tools.cmake, "-G", "Ninja", "-S", str(PROJECT), "-B", str(tree)]
        command += [f"-D{name}={value}" for name, value in definitions.items()]
        run_logged(command, partial / "build.log", "configuring llama.cpp", environment, lock)
        configured.touch()
    command = [tools.ninja, "-C", str(tree), "-j", str(jobs()), "libraries"]
    run_logged(command, partial / "build.log", "building llama.cpp", environment, lock)


def _keep_libraries(partial: Path) -> None:
    libraries = partial / "lib"
    libraries.mkdir(exist_ok=True)
    for archive in (partial / "build").rglob("*.a"):
        shutil.copy2(archive, libraries / archive.name)


def nvcc_environment() -> dict[str, str]:
    """What changes nvcc's work besides its arguments."""
    names = ("CUDAHOSTCXX", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def ccache_launchers(tools: Toolchain, cuda: CudaPlan) -> dict[str, str]:
    if tools.ccache is None:
        return {}
    languages = ("C", "CXX", "CUDA") if cuda.enabled else ("C", "CXX")
    return {f"CMAKE_{language}_COMPILER_LAUNCHER": tools.ccache for language in languages}


def ccache_environment(cache: Path, base: Path) -> dict[str, str]:
    """Hits must not depend on where the checkout or the keyed folder lies."""
    return {
        "CCACHE_DIR": os.environ.get("CCACHE_DIR") or str(cache / "ccache"),
        "CCACHE_BASEDIR": str(base),
        "CCACHE_NOHASHDIR": "1",
    }


def _contents(folder: Path) -> dict[str, str]:
    """Hash of every file below a folder, by relative path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
