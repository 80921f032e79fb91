"""The folder of a tuning run: its study, its report, and what programs read of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from orin_llm.errors import OrinError, UsageError
from orin_llm.host.disk import replacing
from orin_llm.models.store import data_folder
from orin_llm.profiles.file import profile_text
from orin_llm.profiles.profile import Profile
from orin_llm.tune.outcome import Outcome
from orin_llm.tune.report import About, report
from orin_llm.tune.report_plots import save_pictures
from orin_llm.tune.study import study_lock

REPORT, RESULT, STUDY, PROFILE = "report.md", "result.json", "study.sqlite", "profile.toml"


def default_folder(name: str) -> Path:
    """Where the run that makes the profile `name` keeps its files."""
    return data_folder() / "tune" / name


class ReportFolder:
    """A folder for one run. `result.json` is there when the search has come to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def study(self) -> Path:
        """Every trial."""
        return self.path / STUDY

    @property
    def report(self) -> Path:
        """For people."""
        return self.path / REPORT

    @property
    def has_trials(self) -> bool:
        """Whether a search was begun here."""
        return self.study.exists()

    @property
    def is_finished(self) -> bool:
        """Whether one has come to its end."""
        return (self.path / RESULT).exists()

    def make(self, *, fresh: bool) -> None:
        """Create the folder; with `fresh`, without what an earlier run left in it.

        Raises:
            UsageError: something else is in the way, or another process works in it.
            OrinError: it cannot be written.
        """
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is a file: name a folder")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if fresh:
                with study_lock(self.study):  # another process may be at work in it
                    for name in (RESULT, STUDY, REPORT, PROFILE):
                        (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise self._unusable(error) from error

    def write(self, outcome: Outcome, about: About, result: Mapping[str, Any] | None) -> None:
        """Write the report with its pictures; and the result, where it is the last one.

        Raises OrinError where they cannot be written.
        """
        pictures = save_pictures(outcome, self.path)
        self._write(REPORT, report(outcome, replace(about, pictures=pictures)))
        if result is not None:
            self.write_json(RESULT, result)

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a file of the folder; OrinError where it cannot be written."""
        self._write(name, json.dumps(value, indent=2, allow_nan=False) + "\n")

    def write_profile(self, profile: Profile) -> None:
        """Write a copy of it; OrinError where it cannot be written."""
        self._write(PROFILE, profile_text(profile))

    def _write(self, name: str, text: str) -> None:
        try:
            with replacing(self.path / name) as part:
                part.write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> OrinError:
        return OrinError(f"{self.path} cannot be written: {error.strerror or error}")
