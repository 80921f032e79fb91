"""Recordings: a line that says what was watched, then a line for each snapshot, all of it JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orin_llm.errors import OrinError, UsageError
from orin_llm.host.strict_json import json_line
from orin_llm.monitor.numbers import finite
from orin_llm.monitor.snapshot import Snapshot, Subject

VERSION = 1
MAX_LINE_BYTES = 1 << 24  # of as many engines as are watched at once, each with the longest line


class Recorder:
    """Writes a recording, each snapshot at once. One that cannot be written ends the recording.

    Attributes:
        problem: why nothing is recorded any more, or "".
    """

    def __init__(self, path: Path, subject: Subject, interval_s: float) -> None:
        """Make the file.

        Raises:
            UsageError: it is there already, or cannot be made.
        """
        self.problem = ""
        self._path = path
        try:
            self._file = path.open("xb", buffering=0)
        except FileExistsError:
            raise UsageError(
                f"{path} is there already, and no recording is written over: choose another name, "
                "or remove it"
            ) from None
        except OSError as error:
            raise UsageError(f"{path} cannot be made: {error.strerror}") from error
        self._write({"recording": VERSION, "subject": subject.to_json(), "interval_s": interval_s})

    def add(self, snapshot: Snapshot, problems: Mapping[str, str] | None = None) -> None:
        """Write a snapshot, with the problems of the feed that gave it. Does not fail."""
        if not self.problem:
            self._write({**snapshot.to_json(), "problems": dict(problems or {})})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, values: Mapping[str, Any]) -> None:
        line = memoryview(json_line(values).encode())
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            self.problem = (
                f"{self._path} ends here, nothing more is recorded: {error.strerror or error}"
            )


class Replay:
    """The feed of a recording. Only a line of it is in memory at a time.

    Attributes:
        note: what is odd about the recording, or "".
    """

    def __init__(self, path: Path) -> None:
        """Open a recording.

        Raises:
            UsageError: the file cannot be read, or is none.
        """
        self.problems: Mapping[str, str] = {}
        self.note = ""
        self._path = path
        self._line = 0
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from error
        try:
            self._read_head()
        except BaseException:
            self._file.close()
            raise

    def next(self) -> Snapshot | None:
        """The next snapshot of the recording; None at its end.

        Raises:
            OrinError: a line of it is none; not for the last line if that was cut off.
        """
        line = self._read_line()
        if not line:
            return None
        try:
            values = _object(line)
            snapshot = Snapshot.from_json(values)
            self.problems = _problems(values)
        except (ValueError, OverflowError, RecursionError, OrinError) as error:
            if not line.endswith(b"\n"):
                self.note = f"{self._path} was cut off in line {self._line}, which is left out"
                return None
            raise OrinError(f"{self._path}, line {self._line}, is no snapshot: {error}") from error
        return snapshot

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_line(self) -> bytes:
        self._line += 1
        try:
            line = self._file.readline(MAX_LINE_BYTES + 1)
        except OSError as error:
            raise OrinError(f"{self._path} cannot be read: {error.strerror}") from error
        if len(line) > MAX_LINE_BYTES:
            raise OrinError(
                f"{self._path}, line {self._line}, is longer than {MAX_LINE_BYTES} bytes, which no "
                "line of a recording is"
            )
        return line

    def _read_head(self) -> None:
        try:
            line = self._read_line()
            if not line:
                raise UsageError(
                    f"{self._path} is empty: no recording of `orin-llm monitor --record`, which "
                    "begins with a line that says what is watched"
                )
            head = _object(line)
            if head.get("recording", VERSION) != VERSION:
                raise ValueError(
                    f"its version is {head['recording']!r}, and {VERSION} is understood; use the "
                    "orin-llm that it was made with"
                )
            interval_s, subject = finite(head.get("interval_s")), head.get("subject")
            if "recording" not in head or not isinstance(subject, dict):
                raise ValueError('expected {"recording": 1, "subject": {…}, "interval_s": …}')
            if interval_s is None or interval_s <= 0:
                raise ValueError("interval_s: expected a number above 0")
            self.subject, self.interval_s = Subject.from_json(subject), float(interval_s)
        except UsageError:
            raise
        except (ValueError, OverflowError, RecursionError, OrinError) as error:
            raise UsageError(
                f"{self._path} is no recording of `orin-llm monitor --record`: {error}"
            ) from error


def _object(line: bytes) -> dict[str, Any]:
    values = json.loads(line)
    if not isinstance(values, dict):
        raise ValueError("expected a JSON object")
    return values


def _problems(values: Mapping[str, Any]) -> Mapping[str, str]:
    problems = values.get("problems", {})
    if not isinstance(problems, dict) or not all(isinstance(t, str) for t in problems.values()):
        raise ValueError("problems: expected an object of texts")
    return problems
