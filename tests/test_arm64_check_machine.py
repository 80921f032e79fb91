"""The emulated machine of `scripts/arm64_check.sh`: its files and its Python, where apt, dpkg and
pip are stand-ins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from arm64_check.apt import CONFIGURATION
from arm64_check.environment import ensure_environment, make_environment, requirements
from arm64_check.sysroot import PACKAGES, ensure_root, python_name
from native.cleanup import remove_unused
from native.errors import BuildError
from orin_llm.errors import DeviceUnavailable
from orin_llm.host.cpu import read_cpu

FAKES = Path(__file__).parent / "fakes/arm64_check"


@pytest.fixture
def apt_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", os.pathsep.join([str(FAKES), "/usr/bin", "/bin"]))
    monkeypatch.setenv("FAKE_APT_LOG", str(tmp_path / "apt.log"))
    return tmp_path / "apt.log"


@pytest.fixture
def pip_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "executable", str(FAKES / "pip"))
    monkeypatch.setenv("FAKE_PIP_LOG", str(tmp_path / "pip.log"))
    return tmp_path / "pip.log"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root as far as environments look at it."""
    folder = tmp_path / "the board's files"
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/python3").symlink_to("python3.11")
    return folder


def test_the_root_is_made_once_and_kept_while_it_is_used(tmp_path: Path, apt_log: Path) -> None:
    made = ensure_root(tmp_path / "cache")
    assert python_name(made) == "python3.11"
    headers = made / "usr/include/python3.11/aarch64-linux-gnu"
    assert os.readlink(headers) == "../aarch64-linux-gnu"
    assert read_cpu(made).features == ("neon", "dotprod", "fp16")
    asked = apt_log.read_text().splitlines()
    assert len(asked) == 2
    assert all(package in asked[1].split() for package in PACKAGES)
    os.utime(made, (0, 0))
    assert ensure_root(tmp_path / "cache") == made
    remove_unused(tmp_path / "cache", days=30)
    assert made.exists()
    assert len(apt_log.read_text().splitlines()) == 2
    assert not list((tmp_path / "cache").glob("*.partial"))


def test_the_loader_is_found_where_a_release_has_it_below_usr(
    tmp_path: Path, apt_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DPKG_MERGED", "1")
    made = ensure_root(tmp_path / "cache")
    assert (made / "lib").resolve() == made / "usr/lib"


def test_apt_keeps_to_folders_of_its_own_and_runs_no_hook_of_the_system(tmp_path: Path) -> None:
    system = tmp_path / "system.conf"
    system.write_text('APT::Update::Post-Invoke {"rm -r /";};\n')
    done = subprocess.run(
        ["apt-config", "-c", "/dev/stdin", "dump"],
        input=CONFIGURATION.format(folder=tmp_path),
        env={**os.environ, "APT_CONFIG": str(system)},
        capture_output=True,
        text=True,
        check=True,
    )
    settings = done.stdout.splitlines()
    assert f'Dir::State "{tmp_path}/state";' in settings
    assert f'Dir::State::status "{tmp_path}/status";' in settings
    assert f'Dir::Cache "{tmp_path}/cache";' in settings
    hooks = ("APT::Update::Post-Invoke::", "APT::Update::Post-Invoke-Success::")
    assert not [line for line in settings if line.startswith(hooks)]


def test_what_apt_says_is_told_with_what_is_needed_and_the_next_call_starts_anew(
    tmp_path: Path, apt_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_APT_SAYS", "E: Unable to locate package python3-minimal")
    with pytest.raises(DeviceUnavailable, match="Unable to locate package") as raised:
        ensure_root(tmp_path / "cache")
    assert "sources of apt that serve arm64" in str(raised.value)
    assert raised.value.exit_code == 4
    monkeypatch.delenv("FAKE_APT_SAYS")
    assert ensure_root(tmp_path / "cache").is_dir()


def test_a_system_without_apt_is_told_to_be_debian(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceUnavailable, match="no apt-get: run this on Debian"):
        ensure_root(tmp_path / "cache")


def test_the_emulated_python_gets_its_own_name_and_all_arguments(
    tmp_path: Path, root: Path
) -> None:
    emulator = tmp_path / "an emulator"
    emulator.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    emulator.chmod(0o755)
    python = make_environment(tmp_path / "its environment", root, [str(emulator), "-cpu", "a b"])
    done = subprocess.run([python, "-c", "print(1, '$x')"], capture_output=True, text=True)
    program = f"{root}/usr/bin/python3.11"
    assert done.stdout.splitlines() == [
        *("-cpu", "a b", "-0", str(python), program, "-c", "print(1, '$x')")
    ]


def test_wheels_are_asked_for_that_the_boards_system_can_load(
    tmp_path: Path, root: Path, pip_log: Path
) -> None:
    python = ensure_environment(tmp_path / "cache", root, ["emulator"])
    assert python.parent.parent.parent == tmp_path / "cache"
    asked = pip_log.read_text().splitlines()
    assert "--python-version=3.11" in asked
    assert "--only-binary=:all:" in asked
    platforms = {word.split("=")[1] for word in asked if word.startswith("--platform=")}
    assert {"manylinux2014_aarch64", "manylinux_2_28_aarch64"} < platforms
    assert "manylinux_2_35_aarch64" in platforms  # JetPack 6
    assert "manylinux_2_36_aarch64" not in platforms
    pip_log.unlink()
    assert ensure_environment(tmp_path / "cache", root, ["emulator"]) == python
    assert ensure_environment(tmp_path / "cache", root, ["another"]) != python


def test_what_pip_says_is_told(
    tmp_path: Path, root: Path, pip_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = "ERROR: No matching distribution found for numpy"
    for name in ("PIP_NO_INDEX", "PIP_RETRIES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FAKE_PIP_SAYS", none)
    with pytest.raises(BuildError, match="numpy has no wheel for aarch64: make it optional"):
        ensure_environment(tmp_path / "cache", root, ["emulator"])
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_RETRIES", "0")):  # it has not asked
        with monkeypatch.context() as setting:
            setting.setenv(name, value)
            with pytest.raises(DeviceUnavailable, match="No matching distribution"):
                ensure_environment(tmp_path / "cache", root, ["emulator"])
    monkeypatch.setenv("FAKE_PIP_SAYS", f"WARNING: Retrying (Retry(total=0)) {none}")
    with pytest.raises(DeviceUnavailable, match="No matching distribution found for numpy"):
        ensure_environment(tmp_path / "cache", root, ["emulator"])


def test_packages_are_those_of_the_project_without_the_programs_that_build() -> None:
    named = requirements()
    assert {"pip", "numpy", "pytest", "hypothesis"} <= set(named)
    assert not [name for name in named if name.startswith(("cmake", "ninja"))]
    assert [name for name in named if name.startswith("pybind11")]
