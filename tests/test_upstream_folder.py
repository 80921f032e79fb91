"""Sources from a folder that was filled before: each file is what was unpacked, or is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from orin_llm.upstream import PIN, UpstreamError, take_sources, vocab_file, write_hashes
from orin_llm.upstream.folder import HASHES

ROOT = Path(__file__).resolve().parent.parent
FILES = {"src/a.cpp": "int a;", "models/ggml-vocab-tiny.gguf": "GGUF", "src/b.cpp": "int b;"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sources"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    write_hashes(folder, PIN)
    monkeypatch.setenv("ORIN_LLM_SOURCE", str(folder))
    monkeypatch.setenv("PATH", "")  # pip has nothing to fetch with either
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


def take(into: Path) -> int:
    return take_sources(lambda path: path.startswith("src/"), into, PIN, into / "cache")


def test_only_wanted_files_are_copied_and_nothing_is_fetched(folder: Path, tmp_path: Path) -> None:
    assert take(tmp_path / "out") == 2
    copied = {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert copied == {"a.cpp", "b.cpp"}
    assert (tmp_path / "out/src/a.cpp").read_text() == "int a;"


@pytest.mark.parametrize("text", ["int c;", "", "int a; "])
def test_a_changed_file_is_refused_and_named(folder: Path, tmp_path: Path, text: str) -> None:
    (folder / "src/a.cpp").write_text(text)
    with pytest.raises(UpstreamError, match=r"src/a\.cpp is not what was unpacked.*prepare_source"):
        take(tmp_path / "out")
    assert not (tmp_path / "out/src/a.cpp").exists()


def test_a_missing_file_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "src/b.cpp").unlink()
    with pytest.raises(UpstreamError, match=r"src/b\.cpp: No such file.*prepare_source"):
        take(tmp_path / "out")


def test_a_file_that_was_added_is_not_taken(folder: Path, tmp_path: Path) -> None:
    (folder / "src/evil.cpp").write_text("int evil;")
    assert take(tmp_path / "out") == 2


def test_a_folder_of_another_release_is_refused(folder: Path, tmp_path: Path) -> None:
    write_hashes(folder, replace(PIN, version="0.0.1"))
    with pytest.raises(UpstreamError, match=rf"is of {PIN.package} 0\.0\.1.*{PIN.version}"):
        take(tmp_path / "out")


@pytest.mark.parametrize("content", [None, "{", "{}", '{"pin": {}, "files": {}}'])
def test_a_folder_that_was_not_prepared_says_how(
    folder: Path, tmp_path: Path, content: str | None
) -> None:
    (folder / HASHES).unlink()
    if content is not None:
        (folder / HASHES).write_text(content)
    with pytest.raises(UpstreamError, match=r"no readable .*prepare_source\.py FOLDER"):
        take(tmp_path / "out")


@pytest.mark.parametrize("path", ["/src/evil", "src/../../evil"])
def test_a_list_that_leaves_the_folder_is_refused(folder: Path, tmp_path: Path, path: str) -> None:
    text = (folder / HASHES).read_text()
    (folder / HASHES).write_text(text.replace("src/a.cpp", path))
    with pytest.raises(UpstreamError, match="outside of the folder"):
        take(tmp_path / "out")


def test_a_vocabulary_comes_from_the_folder(folder: Path, tmp_path: Path) -> None:
    assert vocab_file("tiny", PIN, tmp_path / "cache").read_text() == "GGUF"
    with pytest.raises(UpstreamError, match=r"sources holds no vocabulary named 'huge'"):
        vocab_file("huge", PIN, tmp_path / "cache")


def test_the_script_unpacks_what_a_build_and_synthetic_models_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new"
    command = [sys.executable, str(ROOT / "scripts/prepare_source.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for path in ("CMakeLists.txt", "ggml/src/ggml-cuda/ggml-cuda.cu", "include/llama.h"):
        assert (folder / path).is_file()
    monkeypatch.setenv("ORIN_LLM_SOURCE", str(folder))
    assert vocab_file("llama-bpe", PIN, tmp_path / "cache").stat().st_size > 1_000_000
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 1 and "is there already" in again.stderr
