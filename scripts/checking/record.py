"""The file that everything found is written to, after every step."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from orin_llm.errors import UsageError

FORMAT = 1
_NOT_TRIED = ("dropped", "skipped", "interrupted")


class Record:
    """The JSON object, on disk as soon as something is put into it.

    `of` (commit, GPU, models) says what it is of: a file of something else is not gone on with.
    """

    def __init__(self, path: Path, of: dict[str, Any]) -> None:
        self.path = path
        self.data: dict[str, Any] = {"format": FORMAT, "of": of, "calls": [], "steps": {}}
        if path.exists():
            self.data = read_record(path)
            if self.data["of"] != of:
                raise UsageError(
                    f"{path} is of {_text(self.data['of'])}, and this is {_text(of)}:"
                    " name another file (--out), or remove it"
                )

    def is_done(self, step: str) -> bool:
        return bool(self.steps.get(step, {}).get("status") == "done")

    @property
    def steps(self) -> dict[str, dict[str, Any]]:
        """What each step found, with its `status`."""
        steps: dict[str, dict[str, Any]] = self.data["steps"]
        return steps

    def put(self, step: str, entry: dict[str, Any]) -> None:
        """Replaces what an earlier call found, unless that was done and this was not even tried."""
        if not (self.is_done(step) and entry["status"] in _NOT_TRIED):
            self.steps[step] = entry
        self.write()

    def write(self) -> None:
        """All or nothing: who reads it meanwhile, or kills us, has a whole file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text(json.dumps(self.data, indent=1, ensure_ascii=False) + "\n")
        os.replace(new, self.path)


def read_record(path: Path) -> dict[str, Any]:
    """A file that an earlier call wrote. Raises UsageError."""
    try:
        data = json.loads(path.read_text())
        if data["format"] != FORMAT or not isinstance(data["steps"], dict):
            raise ValueError("another format")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is no file of results ({error}): name another (--out), or remove it"
        ) from None
    found: dict[str, Any] = data
    return found


def _text(of: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in of.items())
