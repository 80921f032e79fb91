"""The flags of commands that answer: how tokens are drawn, and what an answer is.

The defaults repeat those of `SamplingParams`; see `options`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from orin_llm.cli.options import flag
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.engine import SamplingParams

SAMPLING, ANSWER = "Sampling", "Answer"


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are drawn."""

    temp: Annotated[
        float, flag("--temp", panel=SAMPLING, help="Temperature; 0: always the likeliest token.")
    ] = 0.8
    top_k: Annotated[int, flag("--top-k", panel=SAMPLING, help="Keep the k likeliest; 0: all.")] = (
        40
    )
    top_p: Annotated[
        float, flag("--top-p", panel=SAMPLING, help="Keep the likeliest that sum to p; 1: all.")
    ] = 0.95
    min_p: Annotated[
        float,
        flag(
            "--min-p", panel=SAMPLING, help="Keep what has p times the likeliest's share; 0: all."
        ),
    ] = 0.05
    seed: Annotated[
        int | None,
        flag(
            "--seed", panel=SAMPLING, help="Of the random draw; a new one each time if not given."
        ),
    ] = None
    repeat_penalty: Annotated[
        float, flag("--repeat-penalty", panel=SAMPLING, help="Weakens recent tokens; 1: off.")
    ] = 1.0
    frequency_penalty: Annotated[
        float,
        flag(
            "--frequency-penalty",
            panel=SAMPLING,
            help="Subtracted for each recent occurrence; 0: off.",
        ),
    ] = 0.0
    presence_penalty: Annotated[
        float,
        flag("--presence-penalty", panel=SAMPLING, help="Subtracted once if it occurred; 0: off."),
    ] = 0.0
    sampler_order: Annotated[
        str,
        flag(
            "--sampler-order",
            panel=SAMPLING,
            metavar="[orin|llama]",
            help="orin: temperature before top-k, top-p and min-p; llama: after them.",
        ),
    ] = "orin"

    def params(self) -> SamplingParams:
        """The sampling parameters; UsageError where a value cannot be."""
        from orin_llm.engine import SamplingParams

        return SamplingParams(
            temperature=self.temp,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            seed=self.seed,
            repeat_penalty=self.repeat_penalty,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            order=self.sampler_order,
        )


@dataclass(frozen=True)
class AnswerOptions:
    """What is said before the prompt, where the answer ends, and what is reported."""

    max_tokens: Annotated[
        int | None,
        flag(
            "-n",
            "--max-tokens",
            panel=ANSWER,
            help="Tokens of the answer at most; -1: until the context is full.",
        ),
    ] = None
    system: Annotated[str | None, flag("--system", panel=ANSWER, help="System prompt.")] = None
    stop: Annotated[
        list[str] | None,
        flag(
            "--stop",
            panel=ANSWER,
            metavar="TEXT",
            help="End the answer before this text; repeatable (environment: separated by spaces).",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        flag("--encoding", panel=ANSWER, help="Encoding of the text that is read, if not UTF-8."),
    ] = None
    quiet: Annotated[
        bool, flag("-q", "--quiet", panel=ANSWER, help="No progress and no statistics on stderr.")
    ] = False

    def limit(self) -> int | None:
        """The most tokens of one answer; None is until the context is full."""
        return answer_limit(self.max_tokens)

    def stops(self) -> tuple[str, ...]:
        """The stop strings, empty ones refused (they would end every answer before it began)."""
        return checked_stops(self.stop or [])


def answer_limit(max_tokens: int | None) -> int | None:
    """Read a token limit as the flags write it: -1 or nothing is no limit."""
    if max_tokens is None or max_tokens == -1:
        return None
    if max_tokens < 1:
        raise UsageError(f"max_tokens is {max_tokens}: expected 1 or more, or -1 for no limit")
    return max_tokens


def checked_stops(stops: list[str]) -> tuple[str, ...]:
    """The stop strings as a tuple; UsageError where one is empty."""
    if "" in stops:
        raise UsageError("a stop string is empty: it would end every answer before it began")
    return tuple(stops)
