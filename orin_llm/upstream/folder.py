"""Sources that lie unpacked in a folder, for machines without a network: ORIN_LLM_SOURCE.

Beside the files lies a list of their hashes, made from the checked archive when they were unpacked
(scripts/prepare_source.py). It tells a file that was changed or damaged since; who can write the
list can change both.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from orin_llm.host.disk import sha256
from orin_llm.upstream.fetch import Pin, UpstreamError

HASHES = "orin-llm-sources.json"
_PREPARE = "prepare the folder anew: scripts/prepare_source.py FOLDER"


def source_folder() -> Path | None:
    """What ORIN_LLM_SOURCE names; None where it is not set."""
    named = os.environ.get("ORIN_LLM_SOURCE")
    return Path(named).expanduser().absolute() if named else None


def write_hashes(folder: Path, pin: Pin) -> None:
    """Say of which release the files in a folder are, and what they are like now."""
    files = {
        path.relative_to(folder).as_posix(): sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / HASHES
    }
    content = {"pin": asdict(pin), "files": files}
    (folder / HASHES).write_text(json.dumps(content, indent=1) + "\n")


def copy_sources(folder: Path, pin: Pin, wanted: Callable[[str], bool], into: Path) -> int:
    """Copy the files for which `wanted(path)` holds, and return how many there were.

    Raises:
        UpstreamError: the folder was not prepared, is of another release, or a file was changed.
    """
    files = _read_hashes(folder, pin)
    paths = [path for path in files if wanted(path)]
    for path in paths:
        target = into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(folder / path, target)
        except OSError as error:
            raise UpstreamError(f"{folder / path}: {error.strerror}; {_PREPARE}") from None
        if (found := sha256(target)) != files[path]:
            target.unlink()
            raise UpstreamError(
                f"{folder / path} is not what was unpacked there: expected SHA-256"
                f" {files[path]}, found {found}; {_PREPARE}"
            )
    return len(paths)


def _read_hashes(folder: Path, pin: Pin) -> dict[str, str]:
    """Hashes by path, which stays inside the folder."""
    try:
        content = json.loads((folder / HASHES).read_text())
        files, prepared = dict(content["files"]), Pin(**content["pin"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UpstreamError(
            f"ORIN_LLM_SOURCE={folder} has no readable {HASHES} ({error}); {_PREPARE}"
        ) from None
    if prepared != pin:
        raise UpstreamError(
            f"ORIN_LLM_SOURCE={folder} is of {prepared.package} {prepared.version}"
            f" ({prepared.sha256}), expected {pin.version} ({pin.sha256}); {_PREPARE}"
        )
    for path in files:
        if path.startswith("/") or ".." in path.split("/"):
            raise UpstreamError(f"{folder / HASHES} names {path!r}, outside of the folder")
    return files
