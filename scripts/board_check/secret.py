"""What must not leave the machine: values that are known, and how they may be written."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

# Kinds, and what they are for people.
KINDS = {
    "serial": "serial numbers of board, module and drives",
    "chip": "ids of the chip",
    "mac": "addresses of network cards",
    "ip": "network addresses",
    "host": "names of hosts",
    "user": "names of users",
    "name": "names of people",
    "email": "e-mail addresses",
    "ssid": "names of wireless networks",
    "uuid": "UUIDs of drives, GPUs and the system",
    "id": "the system's own id",
    "token": "passwords and tokens",
    "path": "folders of users, of the checkout and of models",
}
NAMES = ("host", "user", "name", "ssid")  # are words of a language, or look like one
_COLOURS = (
    "", r"\d", r"\d\d", r"\d;\d", r"\d;\d\d", r"\d\d;\d", r"\d\d;\d\d",
    *(rf"[34]8;5;\d{{{digits}}}" for digits in (1, 2, 3)),
)  # fmt: skip
_ESCAPES = (
    r"\\[abfnrtv0]", r"\\x[0-9a-f]{2}", r"\\u[0-9a-f]{4}", r"\[k",
    *(rf"\[{colour}m" for colour in _COLOURS),
)  # fmt: skip
_NUMBERED = re.compile(r"(?:0x|(?:naa|eui|uuid)\.)(?=[0-9a-f-]{8})", re.IGNORECASE)
_FEWEST = 3  # characters of a name that is looked for wherever it stands
_SURE = 8  # characters of a number that is looked for within longer words, too
_JUNK = re.compile(
    r"[0\W_]*|none|null|n/?a|unknown|default string|not (?:specified|applicable|available).*"
    r"|to be filled.*|system (?:serial|product).*|.*o\.e\.m\..*|(?:chassis|asset|board).*|(.)\1+",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Secret:
    """A value of this machine.

    Attributes:
        kind: one of KINDS.
        instead: what stands for a path; "" for a numbered placeholder.
    """

    kind: str
    value: str
    instead: str = ""

    @property
    def is_name(self) -> bool:
        return self.kind in NAMES

    @property
    def is_sure(self) -> bool:
        """It is so long and odd that nothing else is written like it, spaces left out."""
        return not self.is_name and len(self.value) >= _SURE

    def is_looked_for(self, vocabulary: frozenset[str]) -> bool:
        """Names that are short, or common words, are only taken out where a place shows what they
        are."""
        value = self.value.strip()
        if self.is_name:
            return len(value) >= _FEWEST and value.lower() not in vocabulary
        return len(value) >= 4 and not _JUNK.fullmatch(value)

    def pattern(self) -> str:
        """An expression for all the ways it may be written, ignoring case."""
        written = sorted(set(_written(self)), key=len, reverse=True)
        before, after = self._borders()
        return f"{before}(?:{'|'.join(map(_flexible, written))}){after}"

    def _borders(self) -> tuple[str, str]:
        value = self.value
        if self.kind == "path":
            return "", r"(?![^\W_])"
        if value.replace(".", "").isdecimal():  # no part of a longer number, or address
            return begins(r"(?<![0-9])(?<![0-9]\.)"), r"(?!\.?[0-9])"
        if self.is_name:  # digits may follow: maria2
            return (
                begins(r"(?<![^\W\d_])" + (r"(?<!\d)" if value[0].isdigit() else "")),
                r"(?![^\W\d_])" + (r"(?!\d)" if value[-1].isdigit() else ""),
            )
        return ("", "") if self.is_sure else (begins(r"(?<![^\W_])"), r"(?![^\W_])")


def begins(border: str) -> str:
    """Where a word begins: also behind an escape, whose last character looks like one of it."""
    return f"(?:{border}|{'|'.join(f'(?<={escape})' for escape in _ESCAPES)})"


def _written(secret: Secret) -> Iterator[str]:
    value = secret.value
    if secret.kind == "mac":
        pairs = re.findall("[0-9a-f]{2}", value.lower())
        yield from (separator.join(pairs) for separator in (":", "-", "", "_", " "))
        yield ".".join(a + b for a, b in zip(pairs[::2], pairs[1::2], strict=False))
    if numbered := _NUMBERED.match(value):  # the number alone
        yield value[numbered.end() :]
    quoted = repr(value.encode())[2:-1]
    octal = re.sub(r"\\x(..)", lambda found: f"\\{int(found[1], 16):03o}", quoted)  # as git does
    composed = (unicodedata.normalize(form, value) for form in ("NFC", "NFD"))
    for text in (value, *composed, repr(value)[1:-1], quoted, octal):
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield quote(text)
        yield quote(text, safe="")
        yield quote_plus(text)


def _flexible(text: str) -> str:
    """Any white space stands for any other, and for what is written in its place."""
    return r"(?:[\s_+]|\\x20|\\040|\\(?=\s))+".join(re.escape(word) for word in text.split())
