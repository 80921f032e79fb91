"""Numbers as flags write them: lists and ranges that make a cross product, and lengths to draw."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from orin_llm.errors import UsageError

MAX_NUMBER = 1 << 22  # no context is longer
_MAX_DIGITS = 20  # Python reads no more than some thousands
MAX_VALUES = 1000  # of one flag
_RANGE = re.compile(r"(\d+)-(\d+)(?:([+*])(\d+))?")
_MIXED = re.compile(r"(\d+)\.\.(\d+)")


@dataclass(frozen=True)
class Lengths:
    """A length in tokens: fixed, or drawn evenly from low … high for each request."""

    low: int
    high: int

    def draw(self, random: random.Random) -> int:
        return random.randint(self.low, self.high)

    @property
    def setting(self) -> int | str:
        """For machines: a number, or `64..2048` where each request draws its own."""
        return self.low if self.low == self.high else str(self)

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}..{self.high}"


def parse_numbers(text: str, flag: str, least: int = 0) -> list[int]:
    """`4`, `1,4,16`, `1-8`, `128-512+128` and `1-16*2` (both ends included), mixed by commas.

    Raises:
        UsageError: it is none of these, or a number is below `least`.
    """
    values = [value for part in text.split(",") for value in _numbers(part.strip(), flag)]
    _check(values, flag, least)
    return values


def parse_lengths(text: str, flag: str, least: int = 1) -> list[Lengths]:
    """As `parse_numbers`, and `64..2048`: each request draws its own length.

    Raises:
        UsageError: it is none of these, or a number is below `least`.
    """
    lengths: list[Lengths] = []
    for part in text.split(","):
        if match := _MIXED.fullmatch(part.strip()):
            low, high = _integer(match[1], flag), _integer(match[2], flag)
            if low > high:
                raise UsageError(f"{flag} {part.strip()}: the range ends before it begins")
            _check([low, high], flag, least)
            lengths.append(Lengths(low, high))
        else:
            lengths += [Lengths(n, n) for n in parse_numbers(part, flag, least)]
    return lengths


def _check(values: list[int], flag: str, least: int) -> None:
    for value in values:
        if not least <= value <= MAX_NUMBER:
            raise UsageError(f"{flag} has {value}: expected {least} … {MAX_NUMBER}")


def _integer(digits: str, flag: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise UsageError(
            f"{flag} has a number of {len(digits)} digits: expected at most {MAX_NUMBER}"
        )
    return int(digits)


def _numbers(part: str, flag: str) -> list[int]:
    if part.isascii() and part.isdigit():
        return [_integer(part, flag)]
    match = _RANGE.fullmatch(part)
    if not match:
        raise UsageError(
            f"{flag} has {part!r}: expected a number, a list such as 1,4,16 or a range such as "
            "1-8, 128-512+128 or 1-16*2"
        )
    value, last = _integer(match[1], flag), _integer(match[2], flag)
    step = _integer(match[4] or "1", flag)
    times = match[3] == "*"
    if value > last or step < 1 + times or (times and value == 0):
        raise UsageError(f"{flag} has {part!r}: this range has no end")
    values: list[int] = []
    while value <= last:
        if len(values) == MAX_VALUES:
            raise UsageError(f"{flag} has {part!r}: more than {MAX_VALUES} values")
        values.append(value)
        value = value * step if times else value + step
    return values
