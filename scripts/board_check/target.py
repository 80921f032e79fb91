"""The machine that is checked, and where what is found is kept."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checking.checkout import ROOT
from checking.steps import Found, StepFailed
from orin_llm.device.board import read_board
from orin_llm.device.gpu import find_gpus

PROGRAM = "scripts/board_check.sh"


@dataclass(frozen=True)
class Target:
    """What the steps work on.

    Attributes:
        root: stands for `/`.
        folder: everything that is found, as it is; only the archive leaves the machine.
        model: the owner's, by name or file; None: one of random weights.
    """

    root: Path
    folder: Path
    model: str | None
    is_jetson: bool
    has_gpu: bool

    @property
    def collected(self) -> Path:
        """What goes into the archive beside the logs of programs."""
        return self.folder / "collected"

    @property
    def python(self) -> str:
        """The environment's, once it is built."""
        own = ROOT / ".venv/bin/python"
        return str(own) if own.exists() else sys.executable

    @property
    def is_built(self) -> bool:
        """There is an extension module; whether it is the right one is for the build to say."""
        return (ROOT / ".venv").exists() and any((ROOT / "orin_llm").glob("_native*.so"))

    def run_module(self, module: str, *arguments: str) -> list[str]:
        return [self.python, "-m", module, *arguments]

    def orin_llm(self, *arguments: str) -> list[str]:
        """A command that reads this machine."""
        at = [] if self.root == Path("/") else ["--root", str(self.root)]
        return self.run_module("orin_llm.cli", *arguments, *at)


def find_target(root: Path, folder: Path, model: str | None) -> Target:
    board = read_board(root)
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
    has_gpu = not hidden and (board.is_jetson or bool(find_gpus(root).usable))
    return Target(root, folder, model, board.is_jetson, has_gpu)


def check(what: str, passed: bool | None, found: object, to_do: str = "") -> dict[str, Any]:
    """One line of the checklist; None: it cannot be told here."""
    return {"what": what, "passed": passed, "found": str(found), "to_do": to_do}


def judged(said: str, checks: list[dict[str, Any]], **figures: Any) -> Found:
    """What a step found. Raises StepFailed, with all of it, where a check has failed."""
    found: Found = {"said": said, "checks": checks, **figures}
    if failed := [one["what"] for one in checks if one["passed"] is False]:
        raise StepFailed(f"not so: {'; '.join(failed)}", found)
    return found
