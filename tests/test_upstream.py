"""The pinned source archive comes through pip, its hash checked before any of it runs."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from orin_llm.upstream import PIN, Pin, UpstreamError, cache_dir, extract, fetch_sdist, vocab_file

BACKEND = """
from pathlib import Path

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    Path({marker!r}).touch()
    info = Path(folder) / "stand_in-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: stand-in\\nVersion: 1.0\\n")
    return info.name
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


class Index:
    """A folder that pip takes packages from, with one source archive that notes when it runs."""

    def __init__(self, work: Path) -> None:
        self.marker = work / "ran"
        self.cache = work / "cache"
        folder = work / "index"
        folder.mkdir()
        self.archive = folder / "stand_in-1.0.tar.gz"
        members = {
            "PKG-INFO": "Metadata-Version: 2.1\nName: stand-in\nVersion: 1.0\n",
            "pyproject.toml": PYPROJECT,
            "backend.py": BACKEND.format(marker=str(self.marker)),
            "vendor/llama.cpp/src/a.cpp": "int a;",
            "vendor/llama.cpp/models/ggml-vocab-tiny.gguf": "GGUF",
            "elsewhere/src/b.cpp": "int b;",
        }
        write_archive(
            self.archive, {f"stand_in-1.0/{name}": text for name, text in members.items()}
        )

    def pin(self, sha256: str = "") -> Pin:
        digest = sha256 or hashlib.sha256(self.archive.read_bytes()).hexdigest()
        return Pin("stand-in", "1.0", digest, "0")


def write_archive(path: Path, members: dict[str, str]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    index = Index(tmp_path)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index.archive.parent))
    return index


def test_the_archive_is_fetched_with_pip_once_and_then_kept(index: Index) -> None:
    fetched = fetch_sdist(index.pin(), index.cache)
    assert fetched.read_bytes() == index.archive.read_bytes()
    assert index.marker.exists()  # as proof that the next test would see it run
    index.archive.unlink()
    assert fetch_sdist(index.pin(sha256_of(fetched)), index.cache) == fetched


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_archive_with_another_hash_is_refused_before_any_of_it_runs(index: Index) -> None:
    with pytest.raises(UpstreamError, match="stand-in 1.0"):
        fetch_sdist(index.pin("0" * 64), index.cache)
    assert not index.marker.exists()
    assert not list(index.cache.rglob("*.tar.gz"))


def test_when_pip_finds_nothing_the_error_says_what_to_do(index: Index) -> None:
    pin = index.pin()
    index.archive.unlink()
    with pytest.raises(UpstreamError) as raised:
        fetch_sdist(pin, index.cache)
    message = str(raised.value)
    assert "check the network and pip's settings" in message
    assert f"put the file stand_in-1.0.tar.gz (SHA-256 {pin.sha256})" in message
    assert str(index.cache / "upstream") in message


def test_a_damaged_copy_in_the_cache_is_replaced(index: Index) -> None:
    fetched = fetch_sdist(index.pin(), index.cache)
    fetched.write_bytes(fetched.read_bytes()[:100])
    assert fetch_sdist(index.pin(), index.cache).read_bytes() == index.archive.read_bytes()


def test_what_a_killed_download_left_is_removed(index: Index) -> None:
    leftover = index.cache / "upstream" / "download-dead"
    leftover.mkdir(parents=True)
    fetch_sdist(index.pin(), index.cache)
    assert not leftover.exists()


def test_only_wanted_files_of_llama_cpp_are_unpacked(index: Index, tmp_path: Path) -> None:
    into = tmp_path / "out"
    assert extract(index.archive, lambda path: path.startswith("src/"), into) == 1
    assert [path.relative_to(into) for path in into.rglob("*.*")] == [Path("src/a.cpp")]


@pytest.mark.parametrize("name", ["../../evil", "/evil", "top/vendor/llama.cpp/../../../evil"])
def test_a_member_that_would_leave_the_folder_is_not_unpacked(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "evil.tar.gz"
    write_archive(archive, {name: "x"})
    assert extract(archive, lambda path: True, tmp_path / "out") == 0
    assert not list(tmp_path.rglob("evil"))


def test_a_vocabulary_is_unpacked_on_demand(index: Index) -> None:
    path = vocab_file("tiny", index.pin(), index.cache)
    assert path.read_text() == "GGUF"
    assert vocab_file("tiny", index.pin(), index.cache) == path


def test_an_unknown_vocabulary_is_named(index: Index) -> None:
    with pytest.raises(UpstreamError, match="'huge'"):
        vocab_file("huge", index.pin(), index.cache)


def test_the_cache_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("ORIN_LLM_CACHE", raising=False)
    assert cache_dir() == Path("/home/someone/.cache/orin-llm")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_dir() == Path("/caches/orin-llm")
    monkeypatch.setenv("ORIN_LLM_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path


def test_the_stock_extra_is_the_pinned_version() -> None:
    project = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    assert f'"{PIN.package}=={PIN.version}"' in project
