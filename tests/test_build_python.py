"""Which Python the scripts and `pip install` take, and what they say where it is too old."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
SCRIPTS = ("build.sh", "quickstart.sh", "setup_orin.sh", "test.sh")
JETPACK_5 = "JetPack 5 (Python 3.8, CUDA 11.4) is out of support: flash JetPack 6 or newer"
TOO_OLD = [
    path
    for version in ("3.6", "3.7", "3.8", "3.9")
    for path in (
        *Path.home().glob(f".pyenv/versions/{version}.*/bin/python"),
        Path(f"/usr/bin/python{version}"),
    )
    if path.exists()
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The scripts, setup.py, and a PATH that has no Python yet and records what is installed."""
    (tmp_path / "scripts").mkdir()
    for name in (*SCRIPTS, "choose_python.sh", "system_packages.sh", "check_python.py"):
        shutil.copy(REPOSITORY / "scripts" / name, tmp_path / "scripts" / name)
    shutil.copy(REPOSITORY / "setup.py", tmp_path)
    for name in (
        "bash",
        "sh",
        "dirname",
        "basename",
        "id",
        "cat",
        "sed",
        "sha256sum",
        "cut",
        "flock",
    ):
        program(tmp_path, name, f'exec {shutil.which(name)} "$@"')
    for name in ("apt-get", "sudo", "shellcheck", "chromium", "c++"):
        program(tmp_path, name, f'echo {name} "$@" >>{tmp_path}/log')
    return tmp_path


def program(checkout: Path, name: str, does: str) -> None:
    path = checkout / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)


def python(checkout: Path, name: str, version: tuple[int, int, int]) -> None:
    """A Python of that version, as far as a file that it runs can tell; `log` has the rest."""
    pretends = (
        f"import runpy, sys; sys.version_info = {version}; sys.executable = {name!r};"
        " runpy.run_path(sys.argv[1], run_name='__main__')"
    )
    program(
        checkout,
        name,
        f'case $1 in *.py) exec {sys.executable} -c "{pretends}" "$@" ;; esac\n'
        f'echo {name} "$@" >>{checkout}/log',
    )


def run(checkout: Path, *command: str, named: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=checkout,
        env={"PATH": str(checkout / "bin"), "PYTHON": named},
        capture_output=True,
        text=True,
        timeout=60,
    )


def chosen(checkout: Path, named: str = "") -> str:
    script = "set -euo pipefail; source scripts/choose_python.sh; choose_python; echo $PYTHON"
    done = run(checkout, "bash", "-c", script, named=named)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_python_that_is_too_old_is_one_error_before_anything_is_installed(
    checkout: Path, script: str
) -> None:
    python(checkout, "python3", (3, 8, 10))
    (checkout / "bin/c++").unlink()
    done = run(checkout, "bash", f"scripts/{script}")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: Python 3.10 or newer is needed; python3 is 3.8.10\n")
    assert JETPACK_5 in done.stderr and "scripts/flash_orin.sh" in done.stderr
    assert not (checkout / "log").exists()


def test_setup_py_says_the_same_before_it_imports_setuptools(checkout: Path) -> None:
    python(checkout, "python3", (3, 8, 10))
    (checkout / "setuptools.py").write_text("raise ImportError('too early')")
    done = run(checkout, "python3", "setup.py")
    assert done.returncode == 1 and JETPACK_5 in done.stderr


@pytest.mark.parametrize("old", TOO_OLD, ids=lambda path: path.parts[-3])
@pytest.mark.parametrize("file", ["setup.py", "scripts/check_python.py"])
def test_every_old_python_gets_as_far_as_the_error(old: Path, file: str) -> None:
    command = [old, "-B", REPOSITORY / file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and JETPACK_5 in done.stderr


@pytest.mark.parametrize("file", ["setup.py", "scripts/check_python.py"])
def test_what_old_pythons_read_is_in_their_syntax(file: str) -> None:
    ast.parse((REPOSITORY / file).read_text(), feature_version=(3, 6))


def test_python3_is_taken_where_it_is_new_enough(checkout: Path) -> None:
    python(checkout, "python3", (3, 10, 12))
    python(checkout, "python3.12", (3, 12, 3))
    assert chosen(checkout) == "python3"


def test_a_newer_python_beside_an_old_python3_is_found(checkout: Path) -> None:
    python(checkout, "python3", (3, 8, 10))
    program(checkout, "python3.12", "echo 'python3.12: command not found' >&2; exit 127")
    python(checkout, "python3.11", (3, 11, 4))
    assert chosen(checkout) == "python3.11"


def test_build_makes_its_environment_with_the_newer_one(checkout: Path) -> None:
    python(checkout, "python3", (3, 8, 10))
    python(checkout, "python3.11", (3, 11, 4))
    run(checkout, "bash", "scripts/build.sh")
    assert (checkout / "log").read_text() == "python3.11 -m venv --clear .venv\n"


def test_the_one_that_is_named_is_taken_or_refused(checkout: Path) -> None:
    python(checkout, "python3", (3, 12, 3))
    python(checkout, "python3.10", (3, 10, 12))
    python(checkout, "python3.9", (3, 9, 18))
    assert chosen(checkout, named="python3.10") == "python3.10"
    refused = run(checkout, "bash", "scripts/quickstart.sh", named="python3.9")
    assert refused.returncode == 1 and "python3.9 is 3.9.18" in refused.stderr
    missing = run(checkout, "bash", "scripts/quickstart.sh", named="python3.15")
    assert missing.returncode == 1 and "error: no python3.15" in missing.stderr


def test_the_one_that_is_named_by_a_path_is_that_of_the_callers_folder(checkout: Path) -> None:
    python(checkout, "python3.12", (3, 12, 3))
    program(checkout, "realpath", f'exec {shutil.which("realpath")} "$@"')
    script = 'source scripts/choose_python.sh; cd bin; own_python ..; cd /; echo "$PROGRAM"'
    done = run(checkout, "bash", "-euc", script, named="./python3.12")
    assert done.stdout == f"{checkout}/bin/python3.12\n", done.stderr


def test_an_environment_of_an_old_python_is_made_anew(checkout: Path) -> None:
    python(checkout, "python3", (3, 10, 12))
    python(checkout, "old", (3, 8, 10))
    (checkout / ".venv/bin").mkdir(parents=True)
    os.rename(checkout / "bin/old", checkout / ".venv/bin/python")
    run(checkout, "bash", "scripts/build.sh")
    assert "python3 -m venv --clear .venv\n" in (checkout / "log").read_text()


@pytest.mark.parametrize(
    ("named", "packages"),
    [
        ("", ["python3-venv", "python3-dev"]),
        ("python3.11", ["python3.11-venv", "python3.11-dev"]),
        ("bin/python3.11", ["python3.11-venv", "python3.11-dev"]),
    ],
)
def test_system_packages_are_those_of_the_python_that_is_taken(
    checkout: Path, named: str, packages: list[str]
) -> None:
    for name in ("python3", "python3.11"):
        program(checkout, name, "exit 1")
    script = "source scripts/system_packages.sh; missing_packages"
    assert run(checkout, "bash", "-c", script, named=named).stdout.split() == packages


def test_a_machine_without_python_gets_it_with_the_packages(checkout: Path) -> None:
    assert chosen(checkout) == "python3"
    script = "source scripts/system_packages.sh; missing_packages"
    done = run(checkout, "bash", "-c", script)
    assert done.stdout.split() == ["python3", "python3-venv", "python3-dev"]
