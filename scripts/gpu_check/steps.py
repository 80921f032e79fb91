"""What a step of the check is, and what it works with."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_check.command import Done, run_program
from orin_llm.errors import OrinError
from orin_llm.models.names import DEFAULT_MODEL
from orin_llm.models.store import resolve

ROOT = Path(__file__).resolve().parents[2]
Found = dict[str, Any]


class StepFailed(Exception):
    """A step could not do its work. `found` is what it had found by then."""

    def __init__(self, message: str, found: Found | None = None) -> None:
        super().__init__(message)
        self.found = found or {}


class NotPossible(StepFailed):
    """This machine lacks what the step is about."""


@dataclass(frozen=True)
class Sizes:
    """What is measured of each model: tokens, and requests at once."""

    depths: tuple[int, ...] = (0, 2048, 8192)
    prompts: tuple[int, ...] = (512, 2048)
    streams: tuple[int, ...] = (4, 16)
    stream_prompt: int = 512
    answer: int = 128
    batches: tuple[int, ...] = (4, 8, 16, 32)
    batch_prompt: int = 128
    batch_answer: int = 64
    chunks: tuple[int, ...] = (128, 256, 512, 1024, 2048)
    steps: tuple[int, ...] = (32, 128, 512, 2048)
    growth: int = 512
    greedy: int = 64
    windows: int = 256
    repetitions: int = 5
    fewer_repetitions: int = 3


# A tiny model on a CPU: enough to see that every number has its place.
REHEARSAL = Sizes(
    depths=(0, 64),
    prompts=(64, 128),
    streams=(2,),
    stream_prompt=64,
    answer=16,
    batches=(2,),
    batch_prompt=16,
    batch_answer=64,
    chunks=(32, 64),
    steps=(32, 64),
    greedy=16,
    windows=2,
    repetitions=2,
    fewer_repetitions=1,
)

SHAPES = {"1b": "llama-3.2-1b", "8b": "llama-3-8b", "tiny": "tiny"}


@dataclass
class Context:
    """Where a step works.

    Attributes:
        on_gpu: False for a rehearsal on the CPU.
        work: models, and logs of what was run.
        confined: to the board's proxy.
        environ: variables that the programs of this step get beside those of this process.
    """

    on_gpu: bool
    work: Path
    name: str = ""
    deadline: float = 0.0
    confined: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    sizes: Sizes = field(default_factory=Sizes)
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

    @property
    def threads(self) -> str:
        """CPU threads of an engine: the program's choice, but one for a rehearsal beside others."""
        return "0" if self.on_gpu else "1"

    def model(self, shape: str) -> Path:
        """Where the synthetic model of a shape lies."""
        return self.work / "models" / f"{SHAPES[shape]}.Q4_K_M.gguf"


@dataclass(frozen=True)
class Step:
    """One measurement.

    Attributes:
        name: words with dots between; a beginning of them names a group of steps.
        limit_s: it is ended then.
        expected_s: a guess, by which it is decided what is dropped where time is short.
        rank: what has the highest is dropped first.
        needs: steps without whose success it makes no sense.
        confined: it runs on the board's proxy.
        serves: only others need it: dropped when none of them is left.
    """

    name: str
    does: str
    run: Callable[[Context], Found]
    limit_s: float
    expected_s: float
    rank: int
    needs: tuple[str, ...] = ()
    confined: bool = False
    serves: bool = False

    def is_named(self, group: str) -> bool:
        return self.name == group or self.name.startswith(f"{group}.")


def default_model() -> Path | None:
    """The default model where it has been pulled: nothing is fetched here."""
    try:
        return resolve(DEFAULT_MODEL)
    except OrinError:
        return None


def python(module: str, *arguments: str) -> list[str]:
    """A command that runs a module of this checkout."""
    return [sys.executable, "-m", module, *arguments]
