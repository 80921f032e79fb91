"""The wheels that pip chooses on a board, by the Python and the glibc of its system."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from arm64_check.steps import CheckFailed

_PIP = Path(__file__).with_name("target_pip.py")
_NEEDED_PIP = 23  # the first whose report is of a fixed form
_OLDEST_GLIBC = 17  # 2.17: there are no older wheels for Arm
_NO_WHEEL = re.compile(r"No matching distribution found for (.+)")


@dataclass(frozen=True)
class System:
    """What a JetPack brings: `glibc` 35 is 2.35."""

    name: str
    python: str
    glibc: int


JETPACKS = (System("JetPack 6", "3.10.12", 35), System("JetPack 7", "3.12.3", 39))


@dataclass(frozen=True)
class Wheel:
    """A wheel that was chosen."""

    name: str
    version: str
    file: str

    @property
    def tag(self) -> str:
        """Such as `cp310-cp310-manylinux_2_17_aarch64`."""
        return "-".join(self.file.removesuffix(".whl").split("-")[-3:])

    @property
    def glibc(self) -> int:
        """The oldest with which it works: 17 is 2.17; 0 where it has no machine code."""
        of_each = [int(minor) for minor in re.findall(r"manylinux_2_(\d+)_", self.file)]
        return min(of_each + [_OLDEST_GLIBC] * ("manylinux2014" in self.file), default=0)


class NoWheel(Exception):
    """A requirement that no wheel for the board meets: its text."""


def choose(system: System, requirements: Sequence[str]) -> list[Wheel]:
    """What pip on that system would install, wheels only; nothing is installed.

    Raises:
        NoWheel: there is none for a requirement.
        CheckFailed: pip is too old, cannot reach an index, finds no versions that go together, or
            did not take the markers.
    """
    found = version("pip")
    if int(found.split(".")[0]) < _NEEDED_PIP:
        upgrade = f"{sys.executable} -m pip install --upgrade pip"
        raise CheckFailed(f"pip {_NEEDED_PIP} or newer is needed, found {found}: {upgrade}")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [
            *(sys.executable, str(_PIP), json.dumps(_markers(system))),
            *("install", "--dry-run", "--ignore-installed", "--quiet"),
            *("--disable-pip-version-check", "--target", folder, "--report", str(report)),
            *("--only-binary=:all:", "--implementation=cp", *platforms(system)),
            *(f"--python-version={system.python}", *requirements),
        ]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            if missing := without_wheel(done.stderr):
                raise NoWheel(missing)
            said = "\n  ".join(done.stderr.strip().splitlines()[-12:])
            raise CheckFailed(f"{system.name}: {', '.join(requirements)}: pip says\n  {said}")
        return _read(json.loads(report.read_text()), _markers(system))


def _read(report: dict[str, object], markers: dict[str, str]) -> list[Wheel]:
    if report["environment"] != markers:
        raise CheckFailed(
            f"pip {report['pip_version']} evaluated markers for {report['environment']}, not for"
            f" {markers}: see scripts/arm64_check/target_pip.py"
        )
    items = report["install"]
    assert isinstance(items, list)
    wheels = [
        Wheel(
            item["metadata"]["name"],
            item["metadata"]["version"],
            item["download_info"]["url"].rsplit("/", 1)[-1],
        )
        for item in items
    ]
    return sorted(wheels, key=lambda wheel: wheel.name.lower())


def without_wheel(said: str) -> str:
    """The requirement for which pip found none; "" where it says something else.

    It says so of the first of all, too, where it cannot reach an index.
    """
    found = _NO_WHEEL.search(said)
    return found[1] if found and "Retrying" not in said else ""


def platforms(system: System) -> list[str]:
    """Options of pip for what works there."""
    tags = [f"manylinux_2_{minor}_aarch64" for minor in range(_OLDEST_GLIBC, system.glibc + 1)]
    return [f"--platform={tag}" for tag in (*tags, "manylinux2014_aarch64")]


def _markers(system: System) -> dict[str, str]:
    return {
        "implementation_name": "cpython",
        "implementation_version": system.python,
        "os_name": "posix",
        "platform_machine": "aarch64",
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": system.python,
        "python_version": system.python.rpartition(".")[0],
        "sys_platform": "linux",
    }
