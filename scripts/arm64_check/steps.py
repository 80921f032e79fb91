"""What a step of the check is, and the emulated machine that it works with."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checking.checkout import ROOT

WORK = ROOT / "build/arm64_check"  # where steps put what they make

Found = dict[str, object]  # figures and facts, of JSON's types

_LINES_OF_A_FAILURE = 20


class CheckFailed(Exception):
    """What was expected, what was found, and what to do."""


@dataclass(frozen=True)
class Emulated:
    """A machine as the board is, without its GPU.

    Attributes:
        root: of its files, with the board's kind of libraries.
        python: starts its Python; `sys.executable` there.
        emulator: what starts its programs: + program + arguments.
        module: the checkout's orin_llm/_native for it.
        tools: what the names of compilers and binutils for it begin with: `aarch64-linux-gnu-`.
        building: variables for a build with scripts/native or setup.py under its Python.
    """

    root: Path
    python: Path
    emulator: tuple[str, ...]
    module: Path
    tools: str
    building: Mapping[str, str]

    def run(self, arguments: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run its Python on the checkout: `options` are those of subprocess.run.

        Raises:
            CheckFailed: the exit status is not 0 (unless `check=False`).
        """
        return run_program([str(self.python), *arguments], **options)

    def start(
        self, program: Path, *arguments: str, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a program that was compiled for it. Raises CheckFailed, as `run` does."""
        return run_program([*self.emulator, str(program), *arguments], **options)


@dataclass(frozen=True)
class Step:
    """One of the check's steps.

    Attributes:
        does: in a few words.
        needs_module: the aarch64 module is built before it.
    """

    name: str
    does: str
    run: Callable[[Emulated], Found]  # raises CheckFailed
    needs_module: bool = True


def run_program(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    check: bool = True,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program in the checkout, with `env` beside this process's variables.

    Raises:
        CheckFailed: the exit status is not 0 (unless `check=False`).
    """
    options = {"capture_output": True, "stdin": subprocess.DEVNULL, **options}
    if "input" in options:
        del options["stdin"]
    done = subprocess.run(
        command, env={**os.environ, **(env or {})}, cwd=cwd, text=True, errors="replace", **options
    )
    if check and done.returncode != 0:
        said = f"{done.stdout or ''}{done.stderr or ''}".strip().splitlines()[-_LINES_OF_A_FAILURE:]
        name = " ".join(command)
        raise CheckFailed("\n  ".join([f"{name}: exit status {done.returncode}", *said]))
    return done
