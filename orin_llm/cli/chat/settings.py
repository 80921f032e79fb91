"""What a chat asks the engine for with every message, and how /set changes it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from orin_llm.cli.answer_options import answer_limit, checked_stops
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.engine import SamplingParams


@dataclass(frozen=True)
class Settings:
    """Sampling, tokens of an answer at most (None: until the context is full), and stop strings."""

    sampling: SamplingParams
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    def values(self) -> dict[str, str]:
        """Every parameter as /show prints it."""
        shown = {name: str(getattr(self.sampling, name)) for name in _SAMPLING}
        if self.sampling.seed is None:
            shown["seed"] = "none (a new one each time)"
        shown["max_tokens"] = "none" if self.max_tokens is None else str(self.max_tokens)
        shown["stop"] = " ".join(repr(text) for text in self.stop) or "none"
        return shown

    def with_value(self, name: str, text: str) -> Settings:
        """A copy with one parameter changed; UsageError where the name or the value cannot be."""
        if name == "max_tokens":
            return replace(self, max_tokens=answer_limit(_number(int, name, text, none=True)))
        if name == "stop":
            return replace(self, stop=checked_stops(_words(text)))
        if name not in _SAMPLING:
            raise UsageError(f"unknown parameter {name!r}: known are {', '.join(PARAMETERS)}")
        value = _number(_SAMPLING[name], name, text, none=name == "seed")
        return replace(self, sampling=replace(self.sampling, **{name: value}))


_SAMPLING: dict[str, Callable[[str], Any]] = {
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "min_p": float,
    "seed": int,
    "repeat_penalty": float,
    "frequency_penalty": float,
    "presence_penalty": float,
    "penalty_window": int,
    "order": str,
}
PARAMETERS = (*_SAMPLING, "max_tokens", "stop")
FLAG_NAMES = {
    "temp": "temperature",
    "n": "max_tokens",
    "sampler_order": "order",
}  # what the command line calls them


def _number(kind: Callable[[str], Any], name: str, text: str, *, none: bool) -> Any:
    if none and text == "none":
        return None
    try:
        return kind(text)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise UsageError(
            f"{name} is {text!r}: expected {expected}{' or none' if none else ''}"
        ) from None


def _words(text: str) -> list[str]:
    try:
        return [] if text == "none" else shlex.split(text)
    except ValueError as error:
        raise UsageError(
            f"cannot read {text!r}: {error}; quote each text, like 'one' 'two'"
        ) from None
