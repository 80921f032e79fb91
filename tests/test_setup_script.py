"""scripts/setup_orin.sh in a checkout of its own, with fakes for all that it starts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
RECORDER = REPOSITORY / "tests/fakes/flash/recorder"
SUDO = REPOSITORY / "tests/fakes/flash/sudo"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The scripts, a program that is there, and a PATH of fakes."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in ("setup_orin.sh", "system_packages.sh", "choose_python.sh"):
        shutil.copy(REPOSITORY / "scripts" / name, tmp_path / "scripts" / name)
    shutil.copy(RECORDER, tmp_path / "scripts/build.sh")
    shutil.copy(RECORDER, tmp_path / ".venv/bin/orin-llm")
    for name in ("id", "c++", "python3", "apt-get"):
        shutil.copy(RECORDER, tmp_path / "bin" / name)
    shutil.copy(SUDO, tmp_path / "bin/sudo")
    for name in ("sh", "bash", "dirname", "basename", "tr", "cat"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / "bin" / name).symlink_to(found)
    return tmp_path


def run(checkout: Path, *arguments: str, user: str = "1000") -> list[str]:
    """The programs that it called, in order; without `id` and what looks for packages."""
    log = checkout / "log"
    subprocess.run(
        ["bash", str(checkout / "scripts/setup_orin.sh"), *arguments],
        env={"PATH": str(checkout / "bin"), "FAKE_LOG": str(log), "FAKE_id_prints": user},
        check=True,
        capture_output=True,
        timeout=60,
    )
    lines = log.read_text().splitlines()
    return [line for line in lines if line.split()[0] not in ("id", "python3", "c++")]


@pytest.mark.parametrize("command", ["apply", "revert"])
def test_what_changes_the_system_is_run_as_root(checkout: Path, command: str) -> None:
    program = checkout / ".venv/bin/orin-llm"
    assert run(checkout, command, "--mode", "50W") == [
        f"sudo {program} setup {command} --mode 50W",
        f"orin-llm setup {command} --mode 50W",
    ]


def test_root_needs_no_sudo_and_plan_no_root(checkout: Path) -> None:
    assert run(checkout, "apply", user="0") == ["orin-llm setup apply"]
    (checkout / "log").unlink()
    assert run(checkout, "plan", "--json") == ["orin-llm setup plan --json"]


def test_the_toolkit_is_built_where_it_is_not_there(checkout: Path) -> None:
    program = checkout / ".venv/bin/orin-llm"
    program.rename(checkout / "built")
    build = checkout / "scripts/build.sh"
    build.write_text(
        f'#!/bin/sh\necho build.sh >>"$FAKE_LOG"\nexec {shutil.which("cp")} '
        f"{checkout}/built {program}\n"
    )
    assert run(checkout, "plan") == ["build.sh", "orin-llm setup plan"]
