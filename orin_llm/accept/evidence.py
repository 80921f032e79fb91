"""What a check leaves in a folder: the reports, and of each indicator what it was judged by."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orin_llm.accept.indicators import INDICATORS, Indicator
from orin_llm.accept.junit import to_junit
from orin_llm.accept.markdown import to_markdown
from orin_llm.accept.outcome import Outcome
from orin_llm.accept.result import Acceptance
from orin_llm.errors import OrinError, UsageError
from orin_llm.models.output_file import new_file, require_new

FORMATS: dict[str, Callable[[Acceptance], str]] = {
    "md": to_markdown,
    "json": lambda acceptance: json_text(acceptance.to_json()),
    "junit": to_junit,
}
_REPORTS = {"accept.md": "md", "accept.json": "json", "accept.xml": "junit"}


def json_text(value: Any) -> str:
    """JSON that any reader takes: no NaN."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


class Evidence:
    """A folder that files are put into, each whole or not at all.

    A file that cannot be written ends no check, which may have taken long.

    Attributes:
        problem: why the first such file is missing, or "".
    """

    def __init__(self, folder: Path, *, force: bool) -> None:
        """Make it, before long work.

        Raises:
            UsageError: there is something else, or files are in it and `force` is false.
            OrinError, OSError: nothing can be written there.
        """
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"--evidence {folder} is no folder: choose another")
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not force:
            raise UsageError(
                f"--evidence {folder} is not empty: choose a new folder, or pass --force to write "
                "over what is there"
            )
        require_new(folder / "accept.json", force=True)
        self._folder = folder
        self._added: set[Indicator] = set()
        self.problem = ""

    def add(self, outcome: Outcome) -> None:
        """Keep what an indicator was judged by, as soon as it is there."""
        text = json.dumps({**outcome.to_json(), "raw": dict(outcome.raw)}, allow_nan=False)
        self._write(_file_name(outcome.indicator), f"{text}\n")
        self._added.add(outcome.indicator)

    def finish(self, acceptance: Acceptance) -> None:
        """Add the reports; what an earlier check left of other indicators goes."""
        for indicator in set(INDICATORS) - self._added:
            (self._folder / _file_name(indicator)).unlink(missing_ok=True)
        for name, layout in _REPORTS.items():
            self._write(name, FORMATS[layout](acceptance))

    def _write(self, name: str, text: str) -> None:
        try:
            with new_file(self._folder / name, force=True) as part:
                part.write_text(text, encoding="utf-8", errors="replace")  # a name may be no text
        except OrinError as error:
            self.problem = self.problem or str(error)


def _file_name(indicator: Indicator) -> str:
    """`1-ttft.json`."""
    return f"{indicator.number}-{indicator.name}.json"
