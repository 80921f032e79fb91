"""Requests that have nothing to do with each other: one, many at once, or as they were recorded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orin_llm.bench.lengths import Lengths
from orin_llm.bench.records import Run
from orin_llm.bench.trace import TracedRequest
from orin_llm.bench.workload import Prompts, Submission, Wave, Workload


@dataclass(frozen=True)
class Streams:
    """`streams` requests that come at once.

    Attributes:
        depth: tokens of each prompt that are cached before; `prompt` tokens follow them.
    """

    streams: int
    prompt: Lengths
    answer: Lengths
    depth: int = 0

    @property
    def name(self) -> str:
        return "single" if self.streams == 1 else "concurrent"

    @property
    def label(self) -> str:
        streams = f" ×{self.streams}" if self.streams > 1 else ""
        depth = f" d{self.depth}" if self.depth else ""
        return f"{self.name}{streams} p{self.prompt} n{self.answer}{depth}"

    @property
    def settings(self) -> dict[str, object]:
        return {
            "workload": self.name,
            "streams": self.streams,
            "prompt_tokens": self.prompt.setting,
            "max_tokens": self.answer.setting,
            "depth": self.depth,
        }

    @property
    def n_ctx(self) -> int:
        return self.depth + self.prompt.high + self.answer.high

    @property
    def length_flags(self) -> str:
        return "-p, -n, -d"

    @property
    def n_seq(self) -> int:
        return self.streams

    def build(self, n_vocab: int, seed: int) -> Workload:
        prompts = Prompts(n_vocab, seed)
        submissions = [
            Submission(
                "stream",
                prompts.draw(self.depth + self.prompt.draw(prompts.random)),
                self.answer.draw(prompts.random),
            )
            for _ in range(self.streams)
        ]
        return Workload((Wave(tuple(submissions)),), self.depth)

    def figures(self, run: Run, chunk_size: int) -> dict[str, float]:
        return {}


class OneToken(Streams):
    """What is asked at the end of a start: one prompt, one token."""

    def __init__(self, prompt: int) -> None:
        super().__init__(1, Lengths(prompt, prompt), Lengths(1, 1))

    @property
    def label(self) -> str:
        return f"load p{self.prompt}"

    @property
    def settings(self) -> dict[str, object]:
        return {"workload": "load", "prompt_tokens": self.prompt.setting}

    @property
    def length_flags(self) -> str:
        return "-p"


@dataclass(frozen=True)
class Traced:
    """Requests that come when a trace says, at most `streams` running at the same time."""

    path: Path
    requests: tuple[TracedRequest, ...]
    streams: int

    @property
    def label(self) -> str:
        return f"trace {self.path.name} ×{self.streams}"

    @property
    def settings(self) -> dict[str, object]:
        return {"workload": "concurrent", "streams": self.streams, "trace": self.path.name}

    @property
    def n_ctx(self) -> int:
        return max(r.prompt_tokens + r.max_tokens for r in self.requests)

    @property
    def length_flags(self) -> str:
        return "prompt_tokens and max_tokens of the trace"

    @property
    def n_seq(self) -> int:
        return self.streams

    def build(self, n_vocab: int, seed: int) -> Workload:
        prompts = Prompts(n_vocab, seed)
        submissions = [
            Submission("stream", prompts.draw(r.prompt_tokens), r.max_tokens, r.arrival_ms)
            for r in self.requests
        ]
        return Workload((Wave(tuple(submissions)),))

    def figures(self, run: Run, chunk_size: int) -> dict[str, float]:
        return {}
