"""Disk work on large files: room, copies that share storage, checksums."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pathlib import Path

from orin_llm.errors import OrinError
from orin_llm.models.reporter import Progress, Reporter

CHUNK_BYTES = 4 << 20
SPARE_BYTES = 256 << 20  # left free, so that a pull does not fill the disk that the system lives on


def require_space(folder: Path, wanted_bytes: int) -> None:
    """Refuse work that would fill the disk.

    Raises:
        OrinError: fewer than `wanted_bytes` plus a reserve are free where `folder` is.
    """
    free = shutil.disk_usage(folder).free
    if wanted_bytes and wanted_bytes + SPARE_BYTES > free:
        raise OrinError(
            f"not enough room in {folder}: {size_text(wanted_bytes)} are needed and "
            f"{size_text(SPARE_BYTES)} kept free, {size_text(free)} are there. Free some, or set "
            "ORIN_LLM_MODELS to a folder on a larger disk"
        )


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
    total = source.stat().st_size
    require_space(target.parent, total)
    done = 0
    part = target.with_name(target.name + ".part")
    with open(source, "rb") as reading, open(part, "wb") as writing:
        while chunk := reading.read(CHUNK_BYTES):
            writing.write(chunk)
            done += len(chunk)
            reporter.progress(Progress(step, done, total))
    part.rename(target)


def sha256(path: Path, reporter: Reporter) -> str:
    """SHA-256 of the file, in hex."""
    digest = hashlib.sha256()
    total = path.stat().st_size
    done = 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            reporter.progress(Progress(f"checking {path.name}", done, total))
    return digest.hexdigest()


def size_text(size: float) -> str:
    """`1.2 GB`: decimal units, as disks and model hubs count."""
    for unit in ("B", "kB", "MB"):
        if abs(size) < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
