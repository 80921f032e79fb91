"""What the steps of this check work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import checking.steps


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
class Context(checking.steps.Context):
    """Where a step works: models, too.

    Attributes:
        on_gpu: False for a rehearsal on the CPU.
        proxy: the variables that confine a program to the board's; raises StepFailed.
        confined: to that.
    """

    on_gpu: bool = True
    sizes: Sizes = field(default_factory=Sizes)
    proxy: Callable[[Context], Mapping[str, str]] | None = None
    confined: bool = False

    @property
    def threads(self) -> str:
        """CPU threads of an engine: the program's choice, but one for a rehearsal beside others."""
        return "0" if self.on_gpu else "1"

    def model(self, shape: str) -> Path:
        """Where the synthetic model of a shape lies."""
        return self.work / "models" / f"{SHAPES[shape]}.Q4_K_M.gguf"


Step = checking.steps.Step[Context]
