"""Fetches the pinned source distribution into the cache, its hash checked before anything runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orin_llm.errors import OrinError
from orin_llm.host.disk import sha256
from orin_llm.host.locking import file_lock


class UpstreamError(OrinError):
    """The sources of llama.cpp cannot be had. The message says what to do."""


@dataclass(frozen=True)
class Pin:
    """One release of the package that carries llama.cpp, and the hash of its source archive."""

    package: str
    version: str
    sha256: str
    upstream_commit: str

    @property
    def archive_name(self) -> str:
        return f"{self.package.replace('-', '_')}-{self.version}.tar.gz"


PIN = Pin(**json.loads(Path(__file__).with_name("pin.json").read_text()))


def cache_dir() -> Path:
    """Where sources and builds are kept between checkouts: ORIN_LLM_CACHE or the user's cache."""
    if own := os.environ.get("ORIN_LLM_CACHE"):
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "orin-llm"


def no_report(message: str) -> None:
    """Drops what a fetch says of its progress."""


def fetch_sdist(
    pin: Pin = PIN, cache: Path | None = None, report: Callable[[str], None] = no_report
) -> Path:
    """Return the pinned archive, downloading it with pip when the cache has no intact copy.

    pip brings the user's own settings (index, mirror, proxy, certificates). `report` is told of
    what takes long. Raises UpstreamError when pip is missing, cannot reach an index, or gets a
    file with another hash.
    """
    folder = (cache or cache_dir()) / "upstream"
    archive = folder / pin.archive_name
    waiting = f"waiting for another process: download of {pin.archive_name}"
    with file_lock(folder / f"{pin.archive_name}.lock", lambda: report(waiting)):
        if archive.exists() and sha256(archive) == pin.sha256:
            return archive
        for leftover in folder.glob("download-*"):  # of a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="download-") as scratch:
            downloaded = _pip_download(pin, Path(scratch), report)
            found = sha256(downloaded)
            if found != pin.sha256:
                raise UpstreamError(
                    f"{pin.archive_name}: expected SHA-256 {pin.sha256}, found {found}"
                )
            os.replace(downloaded, archive)
    return archive


def _pip_download(pin: Pin, folder: Path, report: Callable[[str], None]) -> Path:
    """pip checks the hash of the archive before it runs the archive's build back end."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{pin.package}=={pin.version} --hash=sha256:{pin.sha256}\n")
    command = [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
        *("--no-deps", "--no-binary", pin.package, "--require-hashes"),
        *("--dest", str(folder), "--requirement", str(requirements)),
    ]
    report(f"fetching {pin.archive_name} (about 75 MB) with pip")
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    archive = folder / pin.archive_name
    if result.returncode == 0 and archive.exists():
        return archive
    reason = (result.stderr.strip() or result.stdout.strip()).splitlines()[-12:]
    raise UpstreamError(
        f"pip could not fetch {pin.package} {pin.version} (source archive):\n  "
        + "\n  ".join(reason)
        + "\nWhat to do: check the network and pip's settings (`python -m pip config list`) and"
        " that this Python has pip; or, without a network, put the file"
        f" {pin.archive_name} (SHA-256 {pin.sha256}) into {folder.parent} and build again."
    )
