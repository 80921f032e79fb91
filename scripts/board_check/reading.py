"""A text as it may be read: escapes resolved, bytes in hexadecimal and base64 decoded, every fold
of a line and every colour one character, and each character with where it stands in the text."""

from __future__ import annotations

import base64
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
_HEX_RUN = re.compile(r"(?:0x)?[0-9a-f]{2}(?:[\s:,;._-]{0,3}(?:0x)?[0-9a-f]{2}){2,}", re.IGNORECASE)
_HEX_DIGIT = re.compile(r"0x|(.)", re.IGNORECASE)
_BASE64_RUN = re.compile(r"[A-Za-z0-9_+/-]{4,}(?:\n[A-Za-z0-9_+/-]{4,})*")


@dataclass(frozen=True)
class Reading:
    """`text[i:j]` is written at `span(i, j)` of the text that is read.

    Attributes:
        at: where each character begins, and where the last one ends; falls if read backwards.
    """

    text: str
    at: Sequence[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        first, last = sorted((self.at[start], self.at[end]))
        return first, last


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


def dumped(laid_out: Reading) -> Iterator[Reading]:
    """What hexadecimal digits, in either order of bytes, and base64 in it stand for, from whichever
    digit on."""
    text = laid_out.text
    runs = [
        [run.start() + digit.start() for digit in _HEX_DIGIT.finditer(run[0]) if _is_hex(digit[1])]
        for run in _HEX_RUN.finditer(text)
    ]
    for skipped in (0, 1) if runs else ():
        octets = [_of_hex(text, run[skipped:]) for run in runs]
        yield _joined(laid_out, octets)
        yield _joined(laid_out, [(data[::-1], places[::-1]) for data, places in octets])
    runs = [
        [at for at in range(*run.span()) if text[at] != FOLD] for run in _BASE64_RUN.finditer(text)
    ]
    for skipped in range(4) if runs else ():
        yield _joined(laid_out, [_of_base64(text, run[skipped:]) for run in runs])


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


def _joined(reading: Reading, runs: list[tuple[bytes, list[int]]]) -> Reading:
    """Of bytes and where each of them, and the end of the last one, is."""
    parts: list[str] = []
    at = array("L")
    for data, places in runs:
        for character, place in _characters(data, places):
            parts.append(character)
            at.append(reading.at[place])
        parts.append("\0")
        at.append(reading.at[places[-1]])
    at.append(at[-1] if at else 0)
    return Reading("".join(parts), at)


def _is_hex(digit: str | None) -> bool:
    return digit is not None and digit in "0123456789abcdefABCDEF"


def _of_hex(text: str, digits: list[int]) -> tuple[bytes, list[int]]:
    digits = digits[: len(digits) // 2 * 2]
    places = [*digits[::2], digits[-1] + 1 if digits else 0]
    return bytes.fromhex("".join(text[at] for at in digits)), places


def _of_base64(text: str, digits: list[int]) -> tuple[bytes, list[int]]:
    digits = digits[: len(digits) - (len(digits) % 4 == 1)]
    written = "".join(text[at] for at in digits).replace("-", "+").replace("_", "/")
    data = base64.b64decode(written + "=" * (-len(digits) % 4))
    places = [digits[n * 4 // 3] for n in range(len(data))]
    return data, [*places, digits[-1] + 1 if digits else 0]
