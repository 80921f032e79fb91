"""Disk work on model files, with its progress: copies that share storage, checksums."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orin_llm.host import disk
from orin_llm.models.reporter import Progress, Reporter

if TYPE_CHECKING:
    from orin_llm import _native


def link_or_copy(source: Path, target: Path, reporter: Reporter, step: str) -> None:
    """Make `target` the same as `source`: a hard link where the disk allows, else a copy.

    Raises:
        OrinError: there is no room for a copy.
    """
    source = source.resolve()
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
        return
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
    copy(source, target, reporter, step)


def copy(source: Path, target: Path, reporter: Reporter, step: str) -> None:
    """Make `target` a copy of `source` that later changes of `source` do not reach.

    Raises:
        OrinError: there is no room for it.
    """
    total = source.stat().st_size
    disk.require_space(target.parent, total)
    done = 0
    part = target.with_name(target.name + ".part")
    with open(source, "rb") as reading, open(part, "wb") as writing:
        while chunk := reading.read(disk.CHUNK_BYTES):
            writing.write(chunk)
            done += len(chunk)
            reporter.progress(Progress(step, done, total))
    part.rename(target)


@dataclass(frozen=True)
class FileRead:
    """What was found in a file that was read from end to end.

    Attributes:
        sha256: in hex.
        invalid: tensors with values that are not finite, each with where in the file to look.
    """

    path: Path
    bytes: int
    sha256: str
    invalid: tuple[tuple[str, int], ...]


def read_through(path: Path, tensors: Sequence[_native.TensorInfo], reporter: Reporter) -> FileRead:
    """Read a file from end to end with the reader that loads models; look at these tensors in it.

    Raises:
        ModelFileError: it cannot be read, or became shorter meanwhile.
    """
    from orin_llm import _native

    digest = hashlib.sha256()
    with _native.FileReader(path, tensors) as reader:
        for piece in reader:
            digest.update(piece)
            done = piece.offset + piece.nbytes
            reporter.progress(Progress(f"checking {path.name}", done, reader.size))
        return FileRead(path, reader.size, digest.hexdigest(), tuple(reader.invalid))


def sha256(path: Path, reporter: Reporter) -> str:
    """SHA-256 of the file, in hex."""
    return read_through(path, (), reporter).sha256
