"""The step that reads what the module asks of a system's libraries: JetPack 6 has that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from arm64_check.steps import CheckFailed, Emulated, Found, run_program

# Ubuntu 22.04, of JetPack 6: its glibc, its libstdc++ (of GCC 12), the rest as of its GCC 11.
UBUNTU_22_04 = {
    "GLIBC": "2.35",
    "GLIBCXX": "3.4.30",
    "CXXABI": "1.3.13",
    "GCC": "11.0",
    "GOMP": "5.0.1",
    "OMP": "5.0",
}
SYSTEM = ("libc.so.", "libm.so.", "libstdc++.so.", "libgcc_s.so.", "libgomp.so.", "ld-linux-")
CUDA = ("libcuda.so.", "libcudart.so.", "libcublas.so.", "libcublasLt.so.")

# The newest libraries of a compiler that say something of JetPack 6. With newer ones modules ask
# for functions of their release, where JetPack's own compiler takes older ones.
TELLING = {"GLIBC": ("libc.so.6", "2.37"), "GLIBCXX": ("libstdc++.so.6", "3.4.30")}

_LIBRARY = re.compile(r"\(NEEDED\).*\[(.+)\]")
_VERSION = re.compile(r"Name: (\S+)\s+Flags: ")
_SYMBOL = re.compile(r"\bUND (\S+?)@+(\S+)")


def glibc(machine: Emulated) -> Found:
    """Versions are judged where the compiler's own libraries let them be; what is needed always."""
    too_new = [
        f"{family} {brought}"
        for family, (library, newest) in TELLING.items()
        if _key(brought := _brought(machine.tools, library, family)) > _key(newest)
    ]
    if not too_new:
        return check(machine.module, f"{machine.tools}readelf", UBUNTU_22_04)
    why = f"{machine.tools}gcc links with {', '.join(too_new)}: a host with Debian 12 can tell"
    return {**check(machine.module, f"{machine.tools}readelf", None), "not judged": why}


def _brought(tools: str, library: str, family: str) -> str:
    """The newest version of a family in a library that the compiler links with."""
    path = run_program([f"{tools}gcc", f"-print-file-name={library}"]).stdout.strip()
    text = run_program([f"{tools}readelf", "--wide", "--version-info", path]).stdout
    defined = re.findall(rf"Name: {family}_([\d.]+)$", text, re.MULTILINE)
    if not defined:
        raise CheckFailed(f"{path}: {tools}readelf shows no versions of {family}")
    return str(max(defined, key=_key))


def check(module: Path, readelf: str, limits: Mapping[str, str] | None = UBUNTU_22_04) -> Found:
    """The newest version of each family that it asks for, and its libraries.

    Args:
        limits: the newest version of each family that the board's system has; None: any will do.

    Raises:
        CheckFailed: the system of `limits` has no such version or library.
    """
    text = run_program([readelf, "--wide", "--dynamic", "--version-info", str(module)]).stdout
    libraries = _LIBRARY.findall(text)
    problems = [
        f"needs {library}, which is none of the system's, the compiler's or CUDA's libraries"
        for library in libraries
        if not library.startswith((*SYSTEM, *CUDA))
    ]
    # CUDA's are named as its libraries; that they are there is for the build to see to.
    versions = {version for version in _VERSION.findall(text) if not version.startswith(CUDA)}
    if not libraries or not versions:
        raise CheckFailed(f"{module.name}: {readelf} shows no libraries with versions")
    if limits is not None and (newer := sorted(v for v in versions if not _is_had(v, limits))):
        symbols = run_program([readelf, "--wide", "--dyn-syms", str(module)]).stdout
        problems += _who_asks(newer, symbols, limits)
    if problems:
        raise CheckFailed("\n  ".join([f"{module.name}:", *problems]))
    return {"libraries": sorted(libraries), **_newest(versions)}


def _is_had(version: str, limits: Mapping[str, str]) -> bool:
    family, _, number = version.rpartition("_")
    # Others, such as GLIBC_ABI_DT_RELR, came with releases after those of the table.
    return bool(family in limits and () < _key(number) <= _key(limits[family]))


def _who_asks(versions: list[str], symbols: str, limits: Mapping[str, str]) -> Iterator[str]:
    asked = _SYMBOL.findall(symbols)
    for version in versions:
        names = [name for name, of in asked if of == version]
        had = limits.get(version.rpartition("_")[0], "none of them")
        yield f"{', '.join(names) or 'the linker'} asks for {version}; JetPack 6 has {had}"


def _newest(versions: set[str]) -> dict[str, object]:
    newest: dict[str, object] = {}
    for version in sorted(versions, key=lambda version: _key(version.rpartition("_")[2])):
        family, _, number = version.rpartition("_")
        newest[family] = number
    return newest


def _key(number: str) -> tuple[int, ...]:
    """Of 2.34: (2, 34); of words such as the last of GLIBC_ABI_DT_RELR: ()."""
    return tuple(int(part) for part in number.split(".") if part.isdigit())
