"""The script that tries another llama.cpp: what it reports and what it changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bump_llama
from native.patches import load_manifest
from orin_llm.upstream import PIN, Pin, fetch_sdist

ROOT = Path(__file__).resolve().parent.parent
NEWER = Pin(PIN.package, "9.9.9", "f" * 64, "abcdef012")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fetch_sdist()
    return tmp_path_factory.mktemp("bump")


def test_every_patch_lands_on_the_pinned_release(work: Path) -> None:
    assert bump_llama.patches_that_do_not_land(PIN, work) == []


def test_a_patch_whose_anchor_upstream_changed_is_named_with_its_file(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = tmp_path / "cpp" / "patches" / "manifest.toml"
    manifest.parent.mkdir(parents=True)
    text = (ROOT / "cpp" / "patches" / "manifest.toml").read_text()
    first = load_manifest(ROOT / "cpp" / "patches" / "manifest.toml")[0]
    manifest.write_text(text.replace(first.sha256, "0" * 64, 1))
    monkeypatch.setattr(bump_llama, "ROOT", tmp_path)
    (problem,) = bump_llama.patches_that_do_not_land(PIN, work)
    assert problem.startswith(f"{first.id}: ")
    assert first.file in problem


def test_the_archive_names_the_commit_of_the_pin() -> None:
    assert bump_llama.upstream_commit(fetch_sdist()) == PIN.upstream_commit


def test_a_phase_that_takes_twice_as_long_shows_as_half_the_speed() -> None:
    old = {"prefill": [1.0, 1.1, 0.9], "decode": [1.0, 1.0, 1.0]}
    new = {"prefill": [0.5, 0.55, 0.45], "decode": [1.0, 1.0, 3.0]}
    assert bump_llama.compare(old, new) == {"prefill": 0.5, "decode": 1.0}


def test_the_pin_changes_in_both_places_that_name_it(tmp_path: Path) -> None:
    (tmp_path / "orin_llm" / "upstream").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    bump_llama.write_pin(NEWER, tmp_path)
    assert Pin(**json.loads((tmp_path / bump_llama.PIN_FILE).read_text())) == NEWER
    project = (tmp_path / "pyproject.toml").read_text()
    assert f'"{PIN.package}==9.9.9"' in project
    assert PIN.version not in project


def test_the_copy_that_is_measured_differs_in_the_pin_alone(tmp_path: Path) -> None:
    copy = bump_llama.copy_checkout(NEWER, tmp_path)
    assert json.loads((copy / bump_llama.PIN_FILE).read_text())["version"] == "9.9.9"
    assert json.loads((ROOT / bump_llama.PIN_FILE).read_text())["version"] == PIN.version
    for name in ("CMakeLists.txt", "scripts/bump_llama.py", "cpp/patches/manifest.toml"):
        assert (copy / name).read_bytes() == (ROOT / name).read_bytes()
    assert not list(copy.glob("orin_llm/_native*.so"))
