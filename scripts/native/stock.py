"""Installs the unpatched peer, built from the same archive with the same options as our build.

`python -m native.stock`, as scripts/test.sh calls it, installs it into the running interpreter's
environment. The wheel is kept in the cache: building it takes as long as llama.cpp does.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from native.cuda import plan_cuda
from native.errors import BuildError
from native.llama import LlamaBuild, ccache_environment, ccache_launchers
from native.module import llama_build
from native.progress import build_lock, say
from native.toolchain import find_toolchain, jobs
from orin_llm.errors import OrinError
from orin_llm.upstream import cache_dir, fetch_sdist

# What the Python package would build beside the library and we never call.
_LEFT_OUT = {"LLAVA_BUILD": "OFF", "LLAMA_BUILD_COMMON": "OFF"}


def ensure_wheel(build: LlamaBuild, cache: Path) -> Path:
    """Return the wheel for this machine and these options, built if need be."""
    options = {**build.options(), **_LEFT_OUT}
    inputs = [build.pin.sha256, build.toolchain.compiler, build.toolchain.predefined, options]
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache / "stock" / f"{build.pin.version}-{key}"
    with build_lock(folder.with_name(f"{folder.name}.lock"), "build of stock llama-cpp-python"):
        if not folder.exists():
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            _build_wheel(build, fetch_sdist(build.pin, cache, say), partial, cache)
            os.rename(partial, folder)
    return next(folder.glob("*.whl"))


def _build_wheel(build: LlamaBuild, archive: Path, into: Path, cache: Path) -> None:
    say("building stock llama-cpp-python, the tests' peer")
    options = {**build.options(), **_LEFT_OUT, **ccache_launchers(build.toolchain, build.cuda)}
    environment = {
        **os.environ,
        **ccache_environment(cache, into),
        "CC": build.toolchain.cc,
        "CXX": build.toolchain.cxx,
        "CMAKE_ARGS": " ".join(f"-D{name}={value}" for name, value in options.items()),
        "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs()),
    }
    _pip(["wheel", "--no-deps", "--wheel-dir", str(into), str(archive)], environment)


def _pip(arguments: list[str], environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        raise BuildError(f"pip {arguments[0]} failed:\n{result.stderr[-4000:]}")


def main() -> int:
    try:
        build = llama_build(find_toolchain(), plan_cuda())
        wheel = ensure_wheel(build, cache_dir())
        record = Path(sys.prefix) / "stock-wheel"
        if not record.exists() or record.read_text() != str(wheel) or not _installed():
            _pip(["install", "--force-reinstall", "--no-deps", str(wheel)], dict(os.environ))
            _pip(["install", str(wheel)], dict(os.environ))  # what it depends on
            record.write_text(str(wheel))
    except (BuildError, OrinError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _installed() -> bool:
    try:
        metadata.version("llama-cpp-python")
    except metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
