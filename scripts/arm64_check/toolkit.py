"""A CUDA toolkit that compiles here for the board: Debian's packages, in a folder of the cache.

The compiler is this machine's, headers and libraries are Arm's. Packages are taken one by one,
without those that they depend on, which would be as much again for this machine.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from arm64_check.apt import CONFIGURATION, prepare_apt, run_packager
from arm64_check.sysroot import TRIPLET
from native.cleanup import remove_unused
from native.progress import build_lock, say
from orin_llm.errors import DeviceUnavailable

RELEASE = "trixie"  # Debian 13, the first with CUDA 12.2 or newer: 12.4
# Package -> what is taken of it, as tar's patterns.
PACKAGES = {
    "nvidia-cuda-toolkit:amd64": ("./usr/bin/*", "./usr/lib/nvidia-cuda-toolkit/*"),
    "nvidia-cuda-dev:arm64": (
        "./usr/include/*",
        *(f"./usr/lib/{TRIPLET}/lib{name}*" for name in ("cudart", "cudadevrt", "cublas.so")),
        *(f"./usr/lib/{TRIPLET}/{name}" for name in ("libcublasLt.so", "stubs/libcu[bd]*.so")),
    ),
    "libcudart12:arm64": (f"./usr/lib/{TRIPLET}/*",),
    "libcublas12:arm64": (f"./usr/lib/{TRIPLET}/*",),
    "libcublaslt12:arm64": (f"./usr/lib/{TRIPLET}/*",),
    "libthrust-dev": ("./usr/include/*",),
    "libcub-dev": ("./usr/include/*",),
    "libcu++-dev": ("./usr/include/*",),
}
_SOURCES = """
APT::Architecture "amd64";
APT::Architectures {{"amd64";"arm64";}};
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{folder}/sources";
"""
_MIRROR = """\
Types: deb
URIs: {mirror}
Suites: {release}
Components: main contrib non-free
Architectures: amd64 arm64
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
# Debian's own is for its folders.
_PROFILE = """\
TOP = $(_HERE_)/..
CICC_PATH = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(CICC_PATH):$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"
"""
_NEEDS = f"a network, 5 GB in ORIN_LLM_CACHE, and Debian's {RELEASE} with its section non-free"


def ensure_toolkit(cache: Path) -> Path:
    """The folder, such as CUDA_HOME names one, filled when it is not there.

    Raises:
        DeviceUnavailable: apt has no such packages, or they cannot be had.
    """
    done = cache / f"cuda-{_key()}"
    if not done.exists():
        with build_lock(done.with_name(f"{done.name}.lock"), "packages of CUDA for Arm"):
            if not done.exists():
                partial = done.with_name(f"{done.name}.partial")
                shutil.rmtree(partial, ignore_errors=True)
                _fetch(partial / "apt", partial / "root")
                _arrange(partial / "root", partial / "toolkit")
                os.rename(partial / "toolkit", done)
                shutil.rmtree(partial)
                remove_unused(cache, days=30)
    os.utime(done)
    return done


def _key() -> str:
    inputs = [RELEASE, PACKAGES, CONFIGURATION, _SOURCES, _MIRROR, _PROFILE]
    return hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]


def _fetch(folder: Path, root: Path) -> None:
    """Unpack the packages into `root`, one after the other: they are large."""
    mirror = _debian(folder / "mirror")
    apt = prepare_apt(folder / "cuda", _SOURCES)
    (folder / "cuda/sources").mkdir()
    (folder / "cuda/sources/debian.sources").write_text(
        _MIRROR.format(mirror=mirror, release=RELEASE)
    )
    say(f"fetching CUDA of Debian's {RELEASE} for Arm (1.3 GB)")
    run_packager([*apt, "update", "--error-on=any"], _NEEDS)
    root.mkdir()
    for package, wanted in PACKAGES.items():
        run_packager([*apt, "download", package], _NEEDS, cwd=folder)
        (file,) = folder.glob("*.deb")
        _unpack(file, wanted, root)
        file.unlink()


def _debian(folder: Path) -> str:
    """Where apt has this system's packages from, which has those of other releases, too."""
    release = platform.freedesktop_os_release()
    if release.get("ID") != "debian":
        raise DeviceUnavailable(
            f"CUDA for Arm is made of Debian's packages (release {RELEASE}, non-free), and this is"
            f" {release.get('PRETTY_NAME', 'another system')}: run this step on Debian"
        )
    told = run_packager([*prepare_apt(folder), "update", "--print-uris", "-q=0"], _NEEDS)
    sources: list[tuple[str, str]] = re.findall(r"'(\S+)/dists/([^/\s]+)/InRelease'", told)
    # Others than Debian name their releases as Debian does; a mirror may have another path.
    mirrors = [
        *(uri for uri, _ in sources if uri.endswith("/debian")),
        *(uri for uri, suite in sources if suite == release.get("VERSION_CODENAME")),
    ]
    if not mirrors:
        raise DeviceUnavailable(
            f"CUDA for Arm is made of Debian's packages (release {RELEASE}, non-free), and apt's"
            " sources name no mirror of Debian"
        )
    return mirrors[0]


def _unpack(package: Path, wanted: tuple[str, ...], root: Path) -> None:
    archive = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE)
    with archive:
        command = ["tar", "--extract", "--directory", str(root), "--wildcards", *wanted]
        done = subprocess.run(command, stdin=archive.stdout, capture_output=True, text=True)
    if archive.returncode != 0 or done.returncode != 0:
        raise DeviceUnavailable(
            f"{package.name} has not what is looked for, {', '.join(wanted)}"
            f" ({done.stderr.strip()}): see PACKAGES in scripts/arm64_check/toolkit.py"
        )


def _arrange(root: Path, toolkit: Path) -> None:
    """Lay it out as NVIDIA does, which nvcc and CMake know."""
    own = root / "usr/lib/nvidia-cuda-toolkit"
    (toolkit / "nvvm/bin").mkdir(parents=True)
    (own / "bin/cicc").rename(toolkit / "nvvm/bin/cicc")
    (own / "libdevice").rename(toolkit / "nvvm/libdevice")
    (root / "usr/bin").rename(toolkit / "bin")
    for name in ("nvcc", "crt"):
        (own / "bin" / name).replace(toolkit / "bin" / name)
    (toolkit / "bin/nvcc.profile").write_text(_PROFILE)
    (root / "usr/include").rename(toolkit / "include")
    (root / f"usr/lib/{TRIPLET}").rename(toolkit / "lib64")
