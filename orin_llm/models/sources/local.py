"""Models that are already on this machine: copied, so that the store has what it checked."""

from __future__ import annotations

from pathlib import Path

from orin_llm.gguf import split
from orin_llm.models import names
from orin_llm.models.disk import copy
from orin_llm.models.reference import require_file
from orin_llm.models.reporter import Reporter
from orin_llm.models.sources.source import WantedFile


class LocalSource:
    """A .gguf file, or the first part of one, given by its path.

    Raises:
        ModelFileError: there is no such file, it is a directory, or a part of it is missing.
    """

    licence = ""

    def __init__(self, path: Path) -> None:
        path = require_file(path).absolute()
        self._folder = path.parent
        self.reference = str(path)
        self.default_name = names.derive(path.name)
        parts = split.parts_of(path.name)
        for part in parts:
            require_file(self._folder / part)
        self.files = tuple(WantedFile(part) for part in parts)

    def fetch(self, file: WantedFile, target: Path, reporter: Reporter) -> None:
        """Copy `file`."""
        copy(self._folder / file.name, target, reporter, f"copying {file.name}")
