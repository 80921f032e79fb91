"""Disk work on model files, with its progress: copies that share storage, checksums."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from orin_llm.host import disk
from orin_llm.models.reporter import Progress, Reporter


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


def sha256(path: Path, reporter: Reporter) -> str:
    """SHA-256 of the file, in hex."""
    step, total = f"checking {path.name}", path.stat().st_size
    return disk.sha256(path, lambda done: reporter.progress(Progress(step, done, total)))
