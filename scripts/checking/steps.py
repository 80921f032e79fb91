"""What a step of a check is, and what it works with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from checking.checkout import ROOT
from checking.command import Done, run_program

Found = dict[str, Any]


class StepFailed(Exception):
    """A step could not do its work. `found` is what it had found by then."""

    def __init__(self, message: str, found: Found | None = None) -> None:
        super().__init__(message)
        self.found = found or {}


class NotPossible(StepFailed):
    """This machine lacks what the step is about."""


@dataclass
class Context:
    """Where a step works.

    Attributes:
        work: for what it makes, and logs of what was run.
        environ: variables that the programs of this step get beside those of this process.
    """

    work: Path
    name: str = ""
    deadline: float = 0.0
    environ: Mapping[str, str] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)

    def run(
        self, command: Sequence[str], name: str = "", environ: Mapping[str, str] | None = None
    ) -> Done:
        """Run a program until the step's time is over; StepFailed where it cannot be started.

        `name` tells its log from those of other programs of the step.
        """
        self.commands.append(list(command))
        log = self.work / "logs" / ".".join(filter(None, (self.name, name)))
        variables = {**os.environ, **self.environ, **(environ or {})}
        try:
            return run_program(command, log, self.deadline - time.monotonic(), variables, ROOT)
        except OSError as error:
            raise StepFailed(f"{command[0]} cannot be started: {error.strerror}") from None

    def need(
        self, command: Sequence[str], name: str = "", environ: Mapping[str, str] | None = None
    ) -> Done:
        """The same; StepFailed also where it does not end well."""
        done = self.run(command, name, environ)
        if not done.well:
            raise StepFailed(f"{' '.join(command[:4])} … {done.why()}")
        return done


C = TypeVar("C", bound=Context)


@dataclass(frozen=True)
class Step(Generic[C]):
    """One of a check's.

    Attributes:
        name: words with dots between; a beginning of them names a group of steps.
        limit_s: it is ended then.
        expected_s: a guess, by which it is decided what is dropped where time is short.
        rank: what has the highest is dropped first.
        needs: steps without whose success it makes no sense.
        serves: only others need it: dropped when none of them is left.
    """

    name: str
    does: str
    run: Callable[[C], Found]
    limit_s: float
    expected_s: float
    rank: int
    needs: tuple[str, ...] = ()
    serves: bool = False

    def is_named(self, group: str) -> bool:
        return self.name == group or self.name.startswith(f"{group}.")
