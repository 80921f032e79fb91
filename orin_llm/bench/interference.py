"""A long prompt comes while others decode, and a short one right behind it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from orin_llm.bench.lengths import Lengths
from orin_llm.bench.metrics import known
from orin_llm.bench.records import RequestRecord, Run
from orin_llm.bench.workload import Prompts, Submission, Wave, Workload
from orin_llm.errors import UsageError


@dataclass(frozen=True)
class Interference:
    """`streams` requests decode; then a prompt of `long_prompt` tokens, then a short one."""

    streams: int
    prompt: Lengths
    answer: Lengths
    long_prompt: int
    short_prompt: int

    @property
    def label(self) -> str:
        lengths = f"p{self.prompt} n{self.answer} long {self.long_prompt} short {self.short_prompt}"
        return f"interference ×{self.streams} {lengths}"

    @property
    def settings(self) -> dict[str, object]:
        return {
            "workload": "interference",
            "streams": self.streams,
            "prompt_tokens": self.prompt.setting,
            "max_tokens": self.answer.setting,
            "long_prompt": self.long_prompt,
            "short_prompt": self.short_prompt,
        }

    @property
    def n_ctx(self) -> int:
        streams = self.prompt.high + self.answer.high
        return max(streams, self.long_prompt + 1, self.short_prompt + 1)

    @property
    def length_flags(self) -> str:
        return "--long-prompt, --short-prompt, -p, -n"

    @property
    def n_seq(self) -> int:
        return self.streams + 2

    def build(self, n_vocab: int, seed: int) -> Workload:
        prompts = Prompts(n_vocab, seed)
        streams = [
            Submission(
                "stream",
                prompts.draw(self.prompt.draw(prompts.random)),
                self.answer.draw(prompts.random),
            )
            for _ in range(self.streams)
        ]
        late = (
            Submission("long", prompts.draw(self.long_prompt), 1),
            Submission("short", prompts.draw(self.short_prompt), 1),
        )
        return Workload((Wave(tuple(streams)), Wave(late, after="decoding")))

    def figures(self, run: Run, chunk_size: int) -> dict[str, float]:
        """The long prompt's cost to the others, in ms and in steps of one full chunk.

        Raises:
            OrinError: a request failed.
            UsageError: the streams ended too early, or no step had a full chunk.
        """
        run.require_all_completed()
        streams = run.completed("stream")
        long, short = run.one("long"), run.one("short")
        if min(r.token_ms[-1] for r in streams) < long.token_ms[0]:
            raise UsageError(
                "the streams ended before the long prompt was read: choose longer answers (-n)"
            )
        chunk_steps = [
            step.duration_ms
            for step in run.steps
            if step.n_prompt_tokens >= chunk_size and step.started_ms >= long.submitted_ms
        ]
        if not chunk_steps:
            raise UsageError(
                f"no step of the long prompt had {chunk_size} prompt tokens: choose a longer one "
                "(--long-prompt) or smaller chunks (--chunk-size)"
            )
        chunk_ms = median(chunk_steps)
        worst_ms = max(_worst_gap_ms(stream, long) for stream in streams)
        long_ms, short_ms = known([long.ttft_ms, short.ttft_ms])
        return {
            "chunk_step_ms": chunk_ms,
            "worst_itl_ms": worst_ms,
            "worst_itl_in_chunk_steps": worst_ms / chunk_ms,
            "short_ttft_ms": short_ms,
            "short_ttft_in_chunk_steps": short_ms / chunk_ms,
            "long_ttft_ms": long_ms,
        }


def _worst_gap_ms(stream: RequestRecord, long: RequestRecord) -> float:
    """The longest gap between two tokens of a stream while the long prompt was there."""
    return max(
        later - earlier
        for earlier, later in pairwise(stream.token_ms)
        if later > long.submitted_ms and earlier < long.token_ms[0]
    )
