"""Keeps the cache from growing with every change of the patches."""

from __future__ import annotations

import fcntl
import shutil
import time
from pathlib import Path


def remove_unused(folder: Path, days: int) -> None:
    """Remove the builds below `folder` that nobody used for `days`, finished or not.

    One that another process is building right now (its lock is held) stays.
    """
    oldest = time.time() - days * 24 * 3600
    for build in folder.iterdir():
        if not build.is_dir() or build.stat().st_mtime > oldest:
            continue
        lock = folder / f"{build.name.removesuffix('.partial')}.lock"
        with lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(build, ignore_errors=True)
