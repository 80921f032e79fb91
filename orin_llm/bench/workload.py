"""What a workload is made of: requests, when they come, and prompts of random tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from orin_llm.bench.records import Run


@dataclass(frozen=True)
class Submission:
    """One request to be made. Its answer has exactly `max_tokens` tokens.

    Attributes:
        role: its part in the workload; figures look requests up by it.
        arrival_ms: after the beginning of its wave.
    """

    role: str
    prompt: Sequence[int]
    max_tokens: int
    arrival_ms: float = 0.0


@dataclass(frozen=True)
class Wave:
    """Requests that begin together, in order of arrival.

    Attributes:
        after: what must hold of all earlier requests before the wave begins: "finished", or
            "decoding" (each has two tokens).
    """

    submissions: tuple[Submission, ...]
    after: Literal["finished", "decoding"] = "finished"


@dataclass(frozen=True)
class Workload:
    """Waves, one after another. The first `depth` tokens of every prompt are cached before."""

    waves: tuple[Wave, ...]
    depth: int = 0


class Described(Protocol):
    """What results tell of a workload."""

    @property
    def label(self) -> str:
        """The settings in one short text: `single p512 n128`."""

    @property
    def settings(self) -> dict[str, object]:
        """The settings for machine-readable output, `workload` first."""

    def figures(self, run: Run, chunk_size: int) -> dict[str, float]:
        """What only this kind of workload asks, of one run."""


class Scenario(Described, Protocol):
    """A kind of workload with its settings."""

    @property
    def n_ctx(self) -> int:
        """Tokens that its longest request can have, with the answer."""

    @property
    def length_flags(self) -> str:
        """What makes its requests shorter: `-p, -n, -d`."""

    @property
    def n_seq(self) -> int:
        """Requests that run at the same time at most."""

    def build(self, n_vocab: int, seed: int) -> Workload:
        """The requests; the same for the same arguments."""


class Prompts:
    """Makes prompts of evenly drawn token ids. No two begin with the same token."""

    def __init__(self, n_vocab: int, seed: int) -> None:
        self.random = random.Random(seed)
        self._n_vocab = n_vocab
        self._first_tokens = self.random.sample(range(n_vocab), n_vocab)
        self._made = 0

    def draw(self, length: int) -> list[int]:
        """A new prompt. First tokens repeat only when the vocabulary is used up."""
        first = self._first_tokens[self._made % self._n_vocab]
        self._made += 1
        return [first, *self.more(length - 1)]

    def more(self, length: int) -> list[int]:
        """Tokens that continue a prompt."""
        return self.random.choices(range(self._n_vocab), k=length)
