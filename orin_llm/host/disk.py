"""Disk work: room, checksums, files that appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orin_llm.errors import OrinError
from orin_llm.host.units import size_text

CHUNK_BYTES = 4 << 20
SPARE_BYTES = 256 << 20  # left free, so that no work fills the disk that the system lives on


def require_space(folder: Path, wanted_bytes: int) -> None:
    """Refuse work that would fill the disk.

    Raises:
        OrinError: fewer than `wanted_bytes` plus a reserve are free where `folder` is.
    """
    free = shutil.disk_usage(folder).free
    if wanted_bytes and wanted_bytes + SPARE_BYTES > free:
        raise OrinError(
            f"not enough room in {folder}: {size_text(wanted_bytes)} are needed and "
            f"{size_text(SPARE_BYTES)} kept free, {size_text(free)} are there. Free some, or "
            "choose a folder on a larger disk (the model store's is set by ORIN_LLM_MODELS)"
        )


def folder_bytes(folder: Path) -> int:
    """Bytes of the files below a folder (0: there is none) that others may be working in."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # removed since it was listed
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def sha256(path: Path) -> str:
    """SHA-256 of the file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path of an empty file beside `path`, to take its name when the block ends well.

    When the block ends otherwise (an error, Ctrl-C) that file is removed and `path` is as it was.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        part.open("xb").close()
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())  # the name must never outlive the data in a power cut
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
