"""Checking what is stored: are the files whole, unchanged, and well formed?"""

from __future__ import annotations

from orin_llm.errors import ModelFileError
from orin_llm.gguf.header import read_header
from orin_llm.models import disk
from orin_llm.models.reporter import Reporter
from orin_llm.models.store import Store


def verify(store: Store, name: str, reporter: Reporter) -> None:
    """Compare each file of model `name` with its record, and check the header.

    Raises:
        ModelFileError: there is no such model, or something is wrong with it.
    """
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
        if disk.sha256(path, reporter) != file.sha256:
            raise ModelFileError(
                f"{file.name} has changed since it was pulled (its SHA-256 differs): {remedy}",
                path=str(path),
            )
    read_header(folder / manifest.files[0].name)
