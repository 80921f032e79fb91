"""Checking model files: are they whole, unchanged since they were pulled, and sound inside?"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orin_llm.errors import ModelFileError
from orin_llm.gguf.split import part_paths
from orin_llm.models import disk, reference
from orin_llm.models.manifest import StoredFile
from orin_llm.models.reference import NameReference
from orin_llm.models.reporter import Reporter
from orin_llm.models.store import Store, resolve

if TYPE_CHECKING:
    from orin_llm import _native


@dataclass(frozen=True)
class Verified:
    """What was checked, and found sound.

    Attributes:
        files: all parts of the model, as they were read.
        tensors: how many have none but finite values.
        stored: whether the files were compared with the store's record of them.
    """

    files: tuple[StoredFile, ...]
    tensors: int
    stored: bool

    def to_json(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "tensors": self.tensors,
            "stored": self.stored,
            "files": [
                {"name": file.name, "size_bytes": file.bytes, "sha256": file.sha256}
                for file in self.files
            ],
        }


def verify(store: Store, name_or_path: str, reporter: Reporter) -> Verified:
    """Read a model from end to end: its header, every tensor, and the checksum of every file.

    A model of the store is compared with what was pulled. A file elsewhere has no record to be
    compared with.

    Raises:
        UsageError: `name_or_path` can be neither.
        ModelFileError: there is no such model, or something is wrong with it.
    """
    name = _name_in(store, name_or_path)
    if name is not None:
        return _verify_stored(store, name, reporter)
    path = resolve(name_or_path, store)
    parts = part_paths(path)
    header = _read_header(parts[0])
    read = [
        disk.read_through(file, _tensors_of(header, part), reporter)
        for part, file in enumerate(parts[: header.n_parts])
    ]
    for file in read:
        _require_sound(file, "take another copy of the model")
    files = tuple(StoredFile(file.path.name, file.bytes, file.sha256) for file in read)
    return Verified(files, len(header.tensors), stored=False)


def _name_in(store: Store, name_or_path: str) -> str | None:
    """The name of the stored model that is meant, if one is."""
    wanted = reference.parse(name_or_path)
    if isinstance(wanted, NameReference) and store.has(wanted.name):
        return wanted.name
    folder = resolve(name_or_path, store).absolute().parent
    return folder.name if folder.parent == store.root and store.has(folder.name) else None


def _verify_stored(store: Store, name: str, reporter: Reporter) -> Verified:
    manifest = store.manifest(name)
    folder = store.folder(name)
    remedy = f"`orin-llm models rm {name}` and pull it again"
    for file in manifest.files:
        path = folder / file.name
        if not path.is_file():
            raise ModelFileError(f"{file.name} is missing: {remedy}", path=str(path))
        size = path.stat().st_size
        if size != file.bytes:
            raise ModelFileError(
                f"{file.name} has {size} bytes, {file.bytes} when it was pulled: {remedy}",
                path=str(path),
            )
    header: _native.GgufHeader | None = None
    try:
        header = _read_header(folder / manifest.files[0].name)
    except ModelFileError as error:
        damage = error  # told unless the file has changed, which explains it
    for part, file in enumerate(manifest.files):
        path = folder / file.name
        tensors = [] if header is None else _tensors_of(header, part)
        read = disk.read_through(path, tensors, reporter)
        if read.sha256 != file.sha256:
            raise ModelFileError(
                f"{file.name} has changed since it was pulled (its SHA-256 differs): {remedy}",
                path=str(path),
            )
        _require_sound(read, "this is how it was pulled: take another copy of the model")
    if header is None:
        raise damage
    return Verified(manifest.files, len(header.tensors), stored=True)


def _read_header(path: Path) -> _native.GgufHeader:
    from orin_llm import _native

    return _native.check_gguf(os.fsencode(path))


def _tensors_of(header: _native.GgufHeader, part: int) -> list[_native.TensorInfo]:
    return [tensor for tensor in header.tensors if tensor.part == part]


def _require_sound(read: disk.FileRead, remedy: str) -> None:
    if not read.invalid:
        return
    name, offset = read.invalid[0]
    more = len(read.invalid) - 1
    others = ""
    if more:
        others = f", and so have {more} other tensors" if more > 1 else ", and so has another"
    raise ModelFileError(
        f"{read.path.name}: tensor {name} has values that are not finite, from byte {offset} "
        f"on{others}: {remedy}",
        path=str(read.path),
        field=name,
        offset=offset,
    )
