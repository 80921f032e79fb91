"""What finds something in a text that must not leave the machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from board_check.reading import Reading, unescaped
from board_check.secret import Secret


@dataclass(frozen=True)
class Hit:
    """`start` to `end` of a text are to be replaced."""

    start: int
    end: int
    kind: str
    value: str
    instead: str = ""

    def until(self, end: int) -> Hit:
        return replace(self, end=end)


class Ways:
    """A text, and the ways to read it, made when they are asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def unescaped(self) -> list[Reading]:
        return unescaped(self.text)


class Finder(Protocol):
    def find(self, ways: Ways) -> Iterable[Hit]: ...


@dataclass(frozen=True)
class Pattern:
    """Text of a kind. What the group `value` has goes; `meant` tells of a doubtful one."""

    kind: str
    expression: re.Pattern[str]
    meant: Callable[[re.Match[str]], bool] = lambda found: True

    def find(self, ways: Ways) -> Iterator[Hit]:
        for reading in ways.unescaped:
            for found in self.expression.finditer(reading.text):
                if self.meant(found):
                    yield Hit(*reading.span(*found.span("value")), self.kind, found["value"])


class Known:
    """Values that are known, in one expression, the longest first."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._secrets = sorted(set(secrets), key=lambda s: (-len(s.value), s.value, s.kind))
        parts = (f"(?P<s{n}>{one.pattern()})" for n, one in enumerate(self._secrets))
        self._expression = re.compile("|".join(parts) or "(?!)", re.IGNORECASE)

    def find(self, ways: Ways) -> Iterator[Hit]:
        for reading in ways.unescaped:
            for found in self._expression.finditer(reading.text):
                secret = self._meant(found)
                yield Hit(*reading.span(*found.span()), secret.kind, secret.value, secret.instead)

    def of_word(self, word: str) -> Secret | None:
        """Which of them the whole of a word is."""
        found = self._expression.fullmatch(word)
        return self._meant(found) if found else None

    def _meant(self, found: re.Match[str]) -> Secret:
        return self._secrets[int((found.lastgroup or "s0")[1:])]
