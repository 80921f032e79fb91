"""A large file that appears whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orin_llm.errors import OrinError, UsageError


@contextmanager
def replacing(out: Path, *, force: bool) -> Iterator[Path]:
    """Yields the path of an empty file beside `out`, which takes its name when the block ends well.

    When the block ends otherwise (an error, Ctrl-C) the file is removed and `out` is as it was.

    Raises:
        UsageError: `out` exists and `force` is false, or it is a folder, or its folder is missing.
        OrinError: the disk is full or may not be written.
    """
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file")
    if not out.parent.is_dir():
        raise UsageError(f"the folder {out.parent} does not exist; create it first")
    if out.exists() and not force:
        raise UsageError(f"{out} exists; pass --force to overwrite it")
    part = out.with_name(f".{out.name}.{secrets.token_hex(4)}.part")
    try:
        part.open("xb").close()
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())  # the name must never outlive the data in a power cut
        part.replace(out)
    except OSError as error:
        raise OrinError(_explain(error, out)) from error
    finally:
        part.unlink(missing_ok=True)


def require_space(folder: Path, nbytes: int) -> None:
    """Checks that `nbytes` fit on the disk that holds `folder`.

    Raises:
        OrinError: they do not; the message says how much is needed and how much is free.
    """
    free = shutil.disk_usage(folder).free
    if nbytes > free:
        raise OrinError(
            f"not enough disk space in {folder}: {nbytes / 2**30:.2f} GiB needed, "
            f"{free / 2**30:.2f} GiB free; free some space or choose another folder"
        )


def _explain(error: OSError, out: Path) -> str:
    if error.errno == errno.ENOSPC:
        return f"the disk filled up while {out} was written; free some space and try again"
    return f"cannot write {out}: {error.strerror or error}"
