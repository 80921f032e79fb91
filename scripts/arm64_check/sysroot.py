"""The files of a 64-bit Arm system: Debian's packages, unpacked into a folder of the cache."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from arm64_check.apt import CONFIGURATION, prepare_apt, run_packager
from native.cleanup import remove_unused
from native.progress import build_lock, say

# The release's Python with its headers, and what the module is linked with.
PACKAGES = ("python3-minimal", "libpython3-stdlib", "libpython3-dev", "libgomp1", "libstdc++6")

TRIPLET = "aarch64-linux-gnu"

# As an Arm system shows the emulated processor; an emulator may show this machine's.
_CPUINFO = Path(__file__).with_name("cpuinfo")

_NEEDS = "a network, 600 MB in ORIN_LLM_CACHE, and sources of apt that serve arm64, as Debian's do"


def ensure_root(cache: Path) -> Path:
    """The folder, filled when it is not there.

    Raises:
        DeviceUnavailable: apt has no such packages, or they cannot be had.
    """
    root = _ensure_packages(cache / f"root-{_key()}")
    os.utime(root)  # packages bring a date of their own, and what is not used for long is removed
    shown, text = root / "proc/cpuinfo", _CPUINFO.read_text()
    if not shown.exists() or shown.read_text() != text:
        shown.parent.mkdir(exist_ok=True)
        shown.write_text(text)
    return root


def _ensure_packages(done: Path) -> Path:
    if done.exists():
        return done
    with build_lock(done.with_name(f"{done.name}.lock"), "packages of the emulated system"):
        if not done.exists():
            partial = done.with_name(f"{done.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            _unpack(_fetch(partial / "apt"), partial / "root")
            os.rename(partial / "root", done)
            shutil.rmtree(partial)
            remove_unused(done.parent, days=30)
    return done


def python_name(root: Path) -> str:
    """What the release's Python is called: python3.11."""
    return (root / "usr/bin/python3").readlink().name


def _key() -> str:
    release = platform.freedesktop_os_release()
    inputs = [release.get("ID"), release.get("VERSION_ID"), PACKAGES, CONFIGURATION]
    return hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]


def _fetch(folder: Path) -> list[Path]:
    """The packages' files, with those that they need."""
    apt = prepare_apt(folder)
    say("fetching Debian's arm64 packages")
    run_packager([*apt, "update", "--error-on=any"], _NEEDS)
    install = ["install", "--yes", "--download-only", "--no-install-recommends", *PACKAGES]
    run_packager([*apt, *install], _NEEDS)
    return sorted((folder / "cache/archives").glob("*.deb"))


def _unpack(packages: Sequence[Path], root: Path) -> None:
    for package in packages:
        run_packager(["dpkg-deb", "--extract", str(package), str(root)], _NEEDS)
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")  # newer releases have a package do that
    # Python's headers include one that a compiler for another system does not look for in `root`.
    headers = root / "usr/include"
    (headers / python_name(root) / TRIPLET).symlink_to(f"../{TRIPLET}")
