"""A model file that is written: where it may go, and what goes wrong."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from orin_llm.errors import OrinError, UsageError
from orin_llm.host.disk import replacing


@contextmanager
def new_file(out: Path, *, force: bool) -> Iterator[Path]:
    """Yields the path of an empty file beside `out`; see `host.disk.replacing`.

    Raises:
        UsageError, OrinError: as `require_new`; or the disk is full or may not be written.
    """
    require_new(out, force=force)
    try:
        with replacing(out) as part:
            yield part
    except OSError as error:
        raise OrinError(_explain(error, out)) from error


def require_new(out: Path, *, force: bool) -> None:
    """Whether a file may be written there: asked before long work, too.

    Raises:
        UsageError: `out` exists and `force` is false, or it is no file (a directory, a device), or
            its directory is missing.
        OrinError: nothing can be written to its directory.
    """
    if out.is_dir():
        raise UsageError(f"{out} is a directory; name a file")
    if not out.parent.is_dir():
        raise UsageError(f"the directory {out.parent} does not exist; create it first")
    if out.exists() and not out.is_file():
        raise UsageError(f"{out} is not a file that another one may replace; name a file")
    if out.exists() and not force:
        raise UsageError(f"{out} exists; pass --force to overwrite it")
    try:
        with TemporaryFile(dir=out.parent):  # what a directory allows is known for sure when asked
            pass
    except OSError as error:
        raise OrinError(_explain(error, out)) from error


def require_apart(out: Path, model_files: Iterable[Path]) -> None:
    """UsageError where `out` is one of the files that the work reads a model from."""
    if out.exists() and any(file.exists() and out.samefile(file) for file in model_files):
        raise UsageError(f"{out} is the model itself: choose another name for the new file")


def disk_full_text(out: Path) -> str:
    """What to say where the disk has no more room for it."""
    return f"the disk filled up while {out} was written; free some space and try again"


def _explain(error: OSError, out: Path) -> str:
    if error.errno == errno.ENOSPC:
        return disk_full_text(out)
    return f"cannot write {out}: {error.strerror or error}"
