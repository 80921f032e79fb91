"""What one repetition of a measurement computes, for a goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from orin_llm.bench.lengths import Lengths
from orin_llm.bench.streams import Streams
from orin_llm.errors import UsageError
from orin_llm.tune.goal import Goal

_LARGEST_PAGE = 256  # tokens


@dataclass(frozen=True)
class Work:
    """Lengths in tokens.

    Attributes:
        prompts: whose TTFT is measured, ascending; the answer follows the longest.
        answer: whose TPOT is measured.
        streams: that come at once, more than may run at the same time where that is a knob.
        stream_prompt, stream_answer: of each of these.
    """

    prompts: tuple[int, ...] = (512, 2048)
    answer: int = 64
    streams: int = 16
    stream_prompt: int = 256
    stream_answer: int = 64

    def __post_init__(self) -> None:
        if not self.prompts or list(self.prompts) != sorted(set(self.prompts)):
            raise UsageError(f"prompts of {self.prompts} tokens: expected lengths that ascend")
        lengths = (*self.prompts, self.streams, self.stream_prompt)
        if min(lengths) < 1 or min(self.answer, self.stream_answer) < 2:
            raise UsageError("a prompt needs 1 token, an answer whose TPOT is measured 2")

    @property
    def n_ctx(self) -> int:
        """Tokens of the longest request."""
        return max(self.prompts[-1] + self.answer, self.stream_prompt + self.stream_answer)

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max(self.prompts[-1], self.stream_prompt)

    @property
    def kv_tokens(self) -> int:
        """That the KV cache needs for all streams at once, in pages of any size."""
        pages = -(-(self.stream_prompt + self.stream_answer) // _LARGEST_PAGE)
        return self.streams * pages * _LARGEST_PAGE

    def alone(self, goal: Goal) -> list[Streams]:
        """Requests that run alone: those that the goal asks for."""
        parts = []
        for prompt in self.prompts if goal.needs_prefill else self.prompts[-1:]:
            longest = prompt == self.prompts[-1]
            answer = self.answer if longest and goal.needs_decode else 1
            parts.append(_streams(1, prompt, answer))
        return parts

    def together(self, goal: Goal) -> Streams | None:
        """Those that run at once; None where the goal does not ask for them."""
        if not goal.needs_concurrent:
            return None
        return _streams(self.streams, self.stream_prompt, self.stream_answer)

    def warm_up(self, goal: Goal) -> list[Streams]:
        """Enough to have read the weights once, and to have built the graphs of each kind."""
        parts = [_streams(1, self.prompts[0], 3)]
        if goal.needs_concurrent:
            parts.append(_streams(self.streams, 8, 3))
        return parts

    def to_json(self) -> Mapping[str, Any]:
        """All fields."""
        return asdict(self)


def _streams(streams: int, prompt: int, answer: int) -> Streams:
    return Streams(streams, Lengths(prompt, prompt), Lengths(answer, answer))
