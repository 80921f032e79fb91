"""Environments of the emulated Python, laid out as venv does."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from arm64_check.chosen_wheels import JETPACKS, platforms, without_wheel
from arm64_check.sysroot import python_name
from checking.checkout import ROOT
from native.cleanup import remove_unused
from native.errors import BuildError
from native.progress import build_lock, say
from orin_llm.errors import DeviceUnavailable
from orin_llm.host.toml_file import read_toml

_BUILD_PROGRAMS = ("cmake", "ninja")  # this machine's are faster


def ensure_environment(cache: Path, root: Path, emulator: Sequence[str]) -> Path:
    """The Python of an environment with all that the product, its build and its tests need.

    Raises:
        DeviceUnavailable: the packages cannot be had.
        BuildError: there is no wheel for one.
    """
    packages = requirements()
    inputs = json.dumps([str(root), list(emulator), packages])
    done = cache / f"env-{hashlib.sha256(inputs.encode()).hexdigest()[:16]}"
    if done.exists():
        os.utime(done)
        return done / "bin/python3"
    with build_lock(done.with_name(f"{done.name}.lock"), "packages of the emulated Python"):
        if not done.exists():
            partial = done.with_name(f"{done.name}.partial")
            make_environment(partial, root, emulator)
            _install(packages, site_packages(partial, root), python_name(root))
            os.rename(partial, done)
            remove_unused(cache, days=30)
    return done / "bin/python3"


def make_environment(folder: Path, root: Path, emulator: Sequence[str]) -> Path:
    """An environment without packages, in place of what is there. Gives its Python."""
    shutil.rmtree(folder, ignore_errors=True)
    site_packages(folder, root).mkdir(parents=True)
    version = python_name(root).removeprefix("python")
    (folder / "pyvenv.cfg").write_text(
        f"home = {root}/usr/bin\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    python = folder / "bin/python3"
    python.parent.mkdir()
    # The name of this file for argv[0] makes it sys.executable, so that what starts it is emulated.
    command = shlex.join([*emulator, "-0"])
    program = shlex.quote(f"{root}/usr/bin/{python_name(root)}")
    python.write_text(f'#!/bin/sh\nexec {command} "$0" {program} "$@"\n')
    python.chmod(0o755)
    return python


def site_packages(environment: Path, root: Path) -> Path:
    return environment / "lib" / python_name(root) / "site-packages"


def requirements() -> list[str]:
    """What pyproject.toml names for a build, a run and the tests."""
    settings = read_toml(ROOT / "pyproject.toml")
    build: list[str] = settings["build-system"]["requires"]
    project = settings["project"]
    named = [*build, *project["dependencies"], *project["optional-dependencies"]["test"]]
    return [name for name in named if not name.startswith(_BUILD_PROGRAMS)]


def _install(packages: Sequence[str], folder: Path, python: str) -> None:
    """With this machine's pip, which is told for which Python it is."""
    say("fetching Python packages for aarch64")
    command = [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"),
        *("--only-binary=:all:", "--implementation=cp", *platforms(JETPACKS[0])),
        f"--python-version={python.removeprefix('python')}",
        *(f"--target={folder}", *packages),
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        if (missing := without_wheel(done.stderr)) and _asks_an_index():
            raise BuildError(f"{missing} has no wheel for aarch64: make it optional, or replace it")
        said = "\n  ".join(done.stderr.strip().splitlines()[-6:])
        raise DeviceUnavailable(f"Python packages for aarch64 cannot be had: pip says\n  {said}")


def _asks_an_index() -> bool:
    """pip does, and says so where it cannot."""
    return not os.environ.get("PIP_NO_INDEX") and os.environ.get("PIP_RETRIES") != "0"
