"""The repository that a package lies in."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit(package: Path) -> str | None:
    """The commit of the repository that holds this package, `-dirty` if files differ from it.

    None where it lies in none, or only in a folder that another project's repository ignores.
    """
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return _git(package, "describe", "--always", "--dirty", "--exclude", "*")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
