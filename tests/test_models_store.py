"""The store on a real disk: what is visible, what is found, what is removed, who waits for whom."""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import time
from pathlib import Path

import pytest

from orin_llm.errors import ModelFileError, OrinError, UsageError
from orin_llm.host.locking import file_lock
from orin_llm.models.manifest import MANIFEST, Manifest, StoredFile
from orin_llm.models.names import DEFAULT_MODEL
from orin_llm.models.store import Store, default_root, resolve


def put(store: Store, name: str, source: str = "test", data: bytes = b"data") -> Manifest:
    with store.locked(name):
        folder = store.make_partial(name)
        (folder / "m.gguf").write_bytes(data)
        file = StoredFile("m.gguf", len(data), "0" * 64)
        manifest = Manifest(name, source, (file,), "MIT", "Q4_0", 256, "2026-01-01T00:00:00+00:00")
        manifest.write(folder)
        store.publish(name)
    return manifest


def test_the_store_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORIN_LLM_MODELS", raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_DATA_HOME", "")
    assert default_root() == Path("/home/someone/.local/share/orin-llm/models")
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    assert default_root() == Path("/home/someone/.local/share/orin-llm/models")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_root() == Path("/data/orin-llm/models")
    monkeypatch.setenv("ORIN_LLM_MODELS", "~/big")
    assert default_root() == Path("/home/someone/big")


def test_looking_into_a_store_that_is_not_there_creates_nothing(store: Store) -> None:
    assert store.names() == [] and store.partials() == [] and store.loose_files() == []
    assert not store.root.exists()


def test_a_published_model_is_found_as_it_was_written(store: Store) -> None:
    manifest = put(store, "a")
    assert store.names() == ["a"]
    assert store.manifest("A") == manifest
    assert store.path("a").read_bytes() == b"data"
    assert store.partials() == []


def test_an_unfinished_pull_is_no_model(store: Store) -> None:
    (store.make_partial("a") / "m.gguf.part").write_bytes(b"half")
    assert store.names() == []
    assert [(p.name, p.bytes) for p in store.partials()] == [("a", 4)]
    with pytest.raises(ModelFileError):
        store.path("a")


def test_removing_frees_the_model_and_its_unfinished_pull(store: Store) -> None:
    put(store, "a")
    (store.make_partial("a") / "m.gguf.part").write_bytes(b"half")
    assert store.remove("a") >= 8
    assert store.names() == [] and store.partials() == []


def test_removing_what_is_not_there_suggests_what_is(store: Store) -> None:
    put(store, "mistral")
    with pytest.raises(ModelFileError, match="did you mean mistral"):
        store.remove("mistrall")


@pytest.mark.parametrize("bad", ["../outside", "/etc", "a/b", "..", ""])
def test_no_operation_leaves_the_store(store: Store, bad: str) -> None:
    outside = store.root.parent / "outside"
    outside.mkdir(parents=True)
    for operation in (store.remove, store.path, store.has, store.make_partial, store.manifest):
        with pytest.raises(UsageError):
            operation(bad)
    assert outside.is_dir()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": 2}',
        '{"schema": 1, "files": []}',
        '{"schema": 1, "files": [{"name": "../../x", "bytes": 1, "sha256": ""}]}',
        '{"schema": 1, "files": [{"name": "m.gguf", "bytes": "many", "sha256": ""}]}',
        '{"schema": 1, "files": ["m.gguf"]}',
    ],
)
def test_a_damaged_record_says_how_to_replace_the_model(store: Store, text: str) -> None:
    put(store, "a")
    (store.folder("a") / MANIFEST).write_text(text)
    with pytest.raises(ModelFileError, match="orin-llm models rm a"):
        store.path("a")
    assert store.names() == ["a"]
    store.remove("a")
    assert store.names() == []


def test_a_file_that_is_gone_says_how_to_get_it_back(store: Store) -> None:
    put(store, "a")
    (store.folder("a") / "m.gguf").unlink()
    with pytest.raises(ModelFileError, match="is gone"):
        store.path("a")


def test_a_model_is_found_by_what_it_was_pulled_by(store: Store) -> None:
    put(store, "a", "hf:o/r:Q4_K_M")
    put(store, "b", "https://h/m.gguf")
    assert resolve("hf:o/r", store) == store.path("a")
    assert resolve("https://h/m.gguf?download=true", store) == store.path("b")
    with pytest.raises(ModelFileError, match=r"https://h/m.gguf\?v=2 is not in the store"):
        resolve("https://h/m.gguf?v=2", store)


def test_a_name_that_was_not_pulled_says_how_to(store: Store) -> None:
    with pytest.raises(ModelFileError, match=f"orin-llm models pull {DEFAULT_MODEL}"):
        resolve(DEFAULT_MODEL, store)
    with pytest.raises(ModelFileError, match="orin-llm models pull hf:o/r"):
        resolve("hf:o/r", store)
    with pytest.raises(ModelFileError, match=r"did you mean qwen3-8b\?"):
        resolve("qwen38b", store)


def test_a_path_resolves_to_itself(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(b"")
    assert resolve(str(file), store) == file


def test_a_file_without_extension_in_this_folder_is_found(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain").write_bytes(b"")
    assert resolve("plain", store) == Path("plain")


@pytest.mark.parametrize(
    ("text", "says"), [("/no/such.gguf", "no such file"), ("/tmp", "directory")]
)
def test_a_path_that_is_no_file_is_refused(store: Store, text: str, says: str) -> None:
    with pytest.raises(ModelFileError, match=says):
        resolve(text, store)


def test_a_store_that_cannot_be_used_names_its_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = Store(tmp_path / "file" / "models")
    with pytest.raises(OrinError, match="ORIN_LLM_MODELS"), store.locked("a"):
        pass


def test_files_beside_the_models_are_reported_not_taken(store: Store) -> None:
    put(store, "a")
    (store.root / "loose.gguf").write_bytes(b"")
    assert store.loose_files() == ["loose.gguf"] and store.names() == ["a"]


def test_the_record_is_plain_json(store: Store) -> None:
    put(store, "a")
    data = json.loads((store.folder("a") / MANIFEST).read_text())
    assert data["schema"] == 1 and data["files"][0]["name"] == "m.gguf"


def _append_slowly(path: Path, log: Path, text: str) -> None:
    with file_lock(path):
        before = log.read_text()
        time.sleep(0.01)
        log.write_text(before + text)


def test_processes_that_want_one_lock_take_turns(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_append_slowly, args=(tmp_path / "lock", log, str(i)))
        for i in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(log.read_text()) == ["0", "1", "2", "3"]


def test_a_lock_whose_holder_died_is_free(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"")  # the file alone holds nothing
    with file_lock(tmp_path / "lock", lambda: pytest.fail("waited")):
        pass


def test_whoever_has_to_wait_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    told: list[str] = []
    is_held, holding = os.pipe()
    is_wanted, wanting = os.pipe()

    def tell() -> None:
        told.append("waiting")
        os.write(wanting, b"1")

    child = os.fork()
    if child == 0:
        try:
            with file_lock(path):
                os.write(holding, b"1")
                select.select([is_wanted], [], [], 30)
        finally:
            os._exit(0)
    os.close(holding)
    assert os.read(is_held, 1)
    with file_lock(path, tell):
        pass
    os.waitpid(child, 0)
    assert told == ["waiting"]
