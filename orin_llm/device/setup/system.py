"""The machine that is set up: its files under a root, and its programs by PATH."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from orin_llm.errors import DeviceUnavailable, OrinError
from orin_llm.host.disk import replacing

_TIMEOUT_S = 300  # mkswap and jetson_clocks take seconds; what takes longer waits for somebody


def _go_on() -> None:
    """Nothing asks to stop."""


@dataclass(frozen=True)
class System:
    """A machine. Names of files are absolute (`/etc/fstab`) and lie under `root`.

    Attributes:
        check: called when a program has ended; it raises to stop there.
        descriptors: open files that the programs hold as well.
    """

    root: Path = Path("/")
    check: Callable[[], None] = _go_on
    descriptors: tuple[int, ...] = ()

    def stopped_by(self, check: Callable[[], None]) -> System:
        """The same machine, with another `check`."""
        return replace(self, check=check)

    def unstoppable(self) -> System:
        """The same machine, for work that has to be finished."""
        return replace(self, check=_go_on)

    def holding(self, descriptor: int) -> System:
        """The same machine; what is started there holds one more open file."""
        return replace(self, descriptors=(*self.descriptors, descriptor))

    @property
    def may_change(self) -> bool:
        """Whether this process has the rights; a tree that only stands for `/` needs none."""
        return os.geteuid() == 0 or self.root != Path("/")

    def path(self, name: str) -> Path:
        """Where the file lies."""
        return self.root / name.lstrip("/")

    def read(self, name: str) -> str | None:
        """The file's text; None if it is not there."""
        try:
            return self.path(name).read_text(errors="surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, text: str) -> None:
        """Replace the file as a whole, or make it and its folders; its mode stays as it was."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
        with replacing(path) as part:
            part.write_text(text, errors="surrogateescape")
            part.chmod(mode)

    def remove(self, name: str) -> None:
        """Remove the file if it is there."""
        self.path(name).unlink(missing_ok=True)

    def ask(self, *command: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program to its end, whatever its exit status; stdout and stderr in `stdout`.

        It is in a session of its own: what a terminal sends, such as Ctrl-C, is not for it.

        Args:
            answer: all that it can read, so that no question of it waits for anybody.

        Raises:
            DeviceUnavailable: it is not there.
        """
        program = shutil.which(command[0])
        if program is None:
            raise DeviceUnavailable(f"{command[0]} was not found on PATH")
        try:
            done = subprocess.run(
                [program, *command[1:]],
                input=answer,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
                pass_fds=self.descriptors,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise OrinError(f"`{' '.join(command)}` has not ended in {_TIMEOUT_S} s") from None
        self.check()
        return done

    def run(self, *command: str) -> None:
        """Run a program that has to succeed.

        Raises:
            OrinError: it did not; with the end of what it said.
        """
        done = self.ask(*command)
        if done.returncode != 0:
            said = "; ".join(done.stdout.strip().splitlines()[-3:]) or "nothing"
            raise OrinError(f"`{' '.join(command)}` ended with {done.returncode} and said: {said}")
