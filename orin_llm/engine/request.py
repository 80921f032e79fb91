"""What an engine is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orin_llm.engine.config import SamplingParams
from orin_llm.engine.field_types import check_field_types
from orin_llm.errors import UsageError

MAX_PRIORITY = 1000


@dataclass(frozen=True)
class Request:
    """What to complete and how.

    Attributes:
        prompt_tokens: the prompt, at least one token.
        sampling: how tokens are drawn.
        max_tokens: at most this many new tokens; None until the context is full.
        stop: texts that end the answer; they are not part of it. One text may stand for itself.
        logprobs: how many of the likeliest tokens to report at each place; None for none. Where
            tokens are drawn on a GPU at most 20, else as many as the vocabulary has.
        ignore_eos: tokens that end an answer do not end this one, for answers of a fixed length.
        priority: each level goes before requests that came up to 2 s earlier.
        timeout_s: seconds from the start after which it ends as it is; None for none.
    """

    prompt_tokens: Sequence[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    ignore_eos: bool = False
    priority: int = 0
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.prompt_tokens, str | bytes):
            raise UsageError(
                "prompt_tokens is text: expected token ids, as Engine.tokenize() gives"
            )
        if isinstance(self.stop, str):  # one text, not its letters
            object.__setattr__(self, "stop", (self.stop,))
        check_field_types(self)
        if not self.prompt_tokens:
            raise UsageError("the prompt is empty: at least one token is needed")
        if self.max_tokens is not None and self.max_tokens < 0:
            raise UsageError(f"max_tokens is {self.max_tokens}: expected 0 or more")
        if self.logprobs is not None and self.logprobs < 0:
            raise UsageError(f"logprobs is {self.logprobs}: expected 0 or more")
        if any(not text for text in self.stop):
            raise UsageError("a stop text is empty: it would end every answer at once")
        if not -MAX_PRIORITY <= self.priority <= MAX_PRIORITY:
            raise UsageError(
                f"priority is {self.priority}: expected -{MAX_PRIORITY} … {MAX_PRIORITY}"
            )
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"timeout_s is {self.timeout_s}: expected more than 0")
