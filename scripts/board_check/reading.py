"""A text as it may be read: escapes resolved, every fold of a line and every colour one character,
and each character with where it stands in the text."""

from __future__ import annotations

import html
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FOLD, COLOUR = "\n", "\x1c"  # `\s` of an expression has both
_MOST_NESTED = 4  # escapes in escapes
_LAYOUT = r"(?P<fold>\\?[\r\n]+[ \t>|│#]*)|(?P<colour>(?:\x1b\[[\d;?]*[a-z]|\[[\d;]{1,9}m|\x1c)+)"
_LAID_OUT = re.compile(_LAYOUT, re.IGNORECASE)
_ESCAPED = re.compile(
    rf"(?P<octets>(?:\\x[0-9a-f]{{2}}|\\[0-3][0-7]{{2}}|%[0-9a-f]{{2}})+)"
    rf"|(?P<units>(?:\\(?-i:u)[0-9a-f]{{4}})+)|\\(?-i:U)(?P<code>000[0-9a-f]{{5}})"
    rf"|\\(?P<one>[^\r\n])|(?P<entity>&\#?\w{{1,8}};)|{_LAYOUT}",
    re.IGNORECASE,
)
_ONE = {**dict.fromkeys("nr", FOLD), **dict.fromkeys("tabfv0", " "), "e": "\x1b"}
_OCTET = re.compile(r"\\x(..)|%(..)|\\(...)")


@dataclass(frozen=True)
class Reading:
    """`text[i:j]` is written at `span(i, j)` of the text that is read.

    Attributes:
        at: where each character begins, and where the last one ends.
    """

    text: str
    at: Sequence[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        return self.at[start], self.at[end]


def as_written(text: str) -> Reading:
    return Reading(text, range(len(text) + 1))


def unescaped(text: str) -> list[Reading]:
    """As it is laid out, and with one level of escapes after another resolved."""
    found = [_resolved(as_written(text), _LAID_OUT)]
    while len(found) <= _MOST_NESTED:
        deeper = _resolved(found[-1], _ESCAPED)
        if deeper.text == found[-1].text:
            break
        found.append(deeper)
    return found


def _resolved(reading: Reading, expression: re.Pattern[str]) -> Reading:
    parts: list[str] = []
    at = array("L")
    end = 0
    for found in expression.finditer(reading.text):
        parts.append(reading.text[end : found.start()])
        at.extend(reading.at[end : found.start()])
        for character, offset in _meant(found):
            parts.append(character)
            at.append(reading.at[found.start() + offset])
        end = found.end()
    parts.append(reading.text[end:])
    at.extend(reading.at[end:])
    return Reading("".join(parts), at)


def _meant(found: re.Match[str]) -> Iterator[tuple[str, int]]:
    """The characters that an escape stands for, each with its offset in it."""
    kind, text = found.lastgroup, found[0]
    if kind == "octets":
        octets = list(_OCTET.finditer(text))
        data = bytes(int(one[3], 8) if one[3] else int(one[1] or one[2], 16) for one in octets)
        yield from _characters(data, [one.start() for one in octets])
    elif kind == "units":
        data = bytes.fromhex(re.sub(r"\\u", "", text))
        yield from _characters(data, [n // 2 * 6 for n in range(len(data))], "utf-16-be")
    elif kind == "code":
        yield chr(int(found["code"], 16)), 0
    elif kind == "one":
        yield _ONE.get(found["one"], found["one"]), 0
    elif kind == "entity":
        yield from ((character, 0) for character in html.unescape(text))
    else:
        yield (FOLD if kind == "fold" else COLOUR), 0


def _characters(data: bytes, at: Sequence[int], codec: str = "utf-8") -> Iterator[tuple[str, int]]:
    """Those that bytes stand for, each with where its first byte is."""
    errors = "surrogateescape" if codec == "utf-8" else "surrogatepass"
    n = 0
    for character in data.decode(codec, errors):
        yield character, at[n]
        n += len(character.encode(codec, errors))
