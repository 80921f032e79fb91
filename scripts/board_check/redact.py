"""The one function that every file passes before it enters the archive."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby

from board_check.finders import Finder, Hit, Known, Ways
from board_check.patterns import PATTERNS, kind_of
from board_check.secret import PLACEHOLDER, Secret

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+\w.]+|[{}\[\]:,]|\s+')
_MOST_NESTED = 8  # JSON in strings of JSON
_DOTTED = re.compile(r"[\d.]+")
_SHORT = 100  # characters


class Redactor:
    """Takes known values and what looks like one out of texts; the same value always becomes the
    same placeholder.

    Attributes:
        secrets: those that are looked for.
        counts: how often something of each kind was taken out.
    """

    def __init__(self, secrets: Iterable[Secret], vocabulary: frozenset[str]) -> None:
        self.secrets = [secret for secret in secrets if secret.is_looked_for(vocabulary)]
        self.counts: Counter[str] = Counter()
        self._numbers: dict[tuple[str, str], str] = {}
        self._last: Counter[str] = Counter()
        self._unchanged: set[str] = set()  # JSON has the same keys and words again and again
        self._exact = Known(secret for secret in self.secrets if not secret.is_name)
        self._finders: Sequence[Finder] = (
            self._exact,
            *PATTERNS,
            Known(secret for secret in self.secrets if secret.is_name),
        )

    def redact(self, text: str) -> str:
        """The text without them. JSON stays JSON; what has none of them stays as it is."""
        return self._any(text, _MOST_NESTED)

    def _any(self, text: str, depth: int) -> str:
        if _is_json(text):
            return self._json(text, depth)
        parts: list[str] = []
        for is_json, lines in groupby(text.splitlines(keepends=True), _is_json):
            if is_json:
                parts += [self._json(line, depth) for line in lines]
            else:
                parts.append(self._text("".join(lines)))
        return "".join(parts)

    def _text(self, text: str) -> str:
        if text in self._unchanged:
            return text
        parts = PLACEHOLDER.split(text)  # what was put in is never looked at again
        parts[::2] = ["".join(self._without(part, self._finders)) for part in parts[::2]]
        new = "".join(parts)
        if new == text and len(text) <= _SHORT:
            self._unchanged.add(text)
        return new

    def _without(self, text: str, finders: Sequence[Finder]) -> Iterator[str]:
        """The text in pieces: what is found, and then what lies between."""
        ways = Ways(text)
        for n, finder in enumerate(finders):
            if hits := _apart(finder.find(ways), text):
                end = 0
                for hit in hits:
                    yield from self._without(text[end : hit.start], finders[n:])
                    yield self._placeholder(hit.kind, hit.value, hit.instead)
                    end = hit.end
                yield from self._without(text[end:], finders[n:])
                return
        yield text

    def _placeholder(self, kind: str, value: str, fixed: str = "") -> str:
        self.counts[kind] += 1
        if fixed:
            return fixed
        same = re.sub(r"[\s.:_-]", "", value).lower() if kind == "mac" else value.lower()
        if (kind, same) not in self._numbers:
            self._last[kind] += 1
            self._numbers[kind, same] = f"<{kind}-{self._last[kind]}>"
        return self._numbers[kind, same]

    def _json(self, text: str, depth: int) -> str:
        parts: list[str] = []
        tokens = _TOKEN.findall(text)
        key = ""
        for n, token in enumerate(tokens):
            if token[0] == '"':
                is_key = "".join(tokens[n + 1 : n + 3]).lstrip()[:1] == ":"
                value = json.loads(token)
                new = self._value(value, "" if is_key else kind_of(key, value), depth)
                if is_key:
                    key = value
                changed = new != value
                parts.append(json.dumps(new, ensure_ascii=token.isascii()) if changed else token)
            elif token[0] == "}":
                key = ""
                parts.append(token)
            elif token[0] in "-0123456789":
                parts.append(self._number(token, kind_of(key, token)))
            else:
                parts.append(token)
        return "".join(parts)

    def _number(self, token: str, kind: str) -> str:
        secret = self._exact.of_word(token)
        if secret or kind in ("serial", "chip"):
            return json.dumps(self._placeholder(secret.kind if secret else kind, token))
        return token

    def _value(self, value: str, kind: str, depth: int) -> str:
        if kind == "version":
            if _DOTTED.fullmatch(value) and not self._exact.of_word(value):
                return value
        elif kind and value.strip() and not PLACEHOLDER.fullmatch(value):
            return self._placeholder(kind, value)
        return self._any(value, depth - 1) if depth > 0 else self._text(value)


def _apart(hits: Iterable[Hit], text: str) -> list[Hit]:
    """In order; of those that overlap one, which reaches as far as all of them."""
    found: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end)):
        if not (written := text[hit.start : hit.end].rstrip()):
            continue
        hit = hit.until(hit.start + len(written))  # without what separates bytes of a dump
        if found and hit.start < found[-1].end:
            found[-1] = found[-1].until(max(hit.end, found[-1].end))
        else:
            found.append(hit)
    return found


def _is_json(text: str) -> bool:
    """It is an object or a list."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    with suppress(ValueError, RecursionError):
        json.loads(text, parse_int=len, parse_float=len)
        return True
    return False
