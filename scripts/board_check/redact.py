"""The one function that every file passes before it enters the archive."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from board_check.patterns import PATTERNS, Pattern, kind_of_key
from board_check.secret import KINDS, Secret

# What is put in: is never looked at again.
_PUT_IN = re.compile(rf"(<(?:{'|'.join(KINDS)})-\d+>|<checkout>|<models>)")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+\w.]+|[{}\[\]:,]|\s+')
_MOST_NESTED = 8  # JSON in strings of JSON


class Redactor:
    """Takes known values and what looks like one out of texts; the same value always becomes the
    same placeholder.

    Attributes:
        counts: how often something of each kind was taken out.
    """

    def __init__(self, secrets: Iterable[Secret], vocabulary: frozenset[str]) -> None:
        self._secrets = [secret for secret in secrets if secret.is_looked_for(vocabulary)]
        self.counts: Counter[str] = Counter()
        self._numbers: dict[tuple[str, str], str] = {}
        self._last: Counter[str] = Counter()
        self._exact = _joined(secret for secret in self._secrets if not secret.is_name)
        self._names = _joined(secret for secret in self._secrets if secret.is_name)

    def redact(self, text: str) -> str:
        """The text without them. JSON stays JSON; what has none of them stays as it is."""
        return self._any(text, _MOST_NESTED)

    def remains(self, text: str) -> list[str]:
        """Kinds of known values that are in a redacted text all the same, white space (that folds
        lines) and colours left out."""
        squeezed = _squeezed(text)
        found = {s.kind for s in self._secrets if s.is_sure and _squeezed(s.value) in squeezed}
        return sorted(found)

    def _any(self, text: str, depth: int) -> str:
        if _is_json(text):
            return self._json(text, depth)
        if "\n" not in text:
            return self._text(text)
        lines = text.splitlines(keepends=True)
        if not any(_is_json(line) for line in lines):
            return self._text(text)
        return "".join(self._json(x, depth) if _is_json(x) else self._text(x) for x in lines)

    def _text(self, text: str) -> str:
        text = self._outside(text, self._exact)
        for pattern in PATTERNS:
            text = self._outside(text, _Group(pattern))
        return self._outside(text, self._names)

    def _outside(self, text: str, group: _Group) -> str:
        """Apply it to what lies between the placeholders."""

        def instead(found: re.Match[str]) -> str:
            kind, value, fixed = group.meaning(found)
            if not kind:
                return found[0]
            start, end = (
                (found.start("value"), found.end("value")) if group.pattern else found.span()
            )
            before = found.string[found.start() : start]
            after = found.string[end : found.end()]
            return before + self._placeholder(kind, value, fixed) + after

        if not group.expression.search(text):
            return text
        parts = _PUT_IN.split(text)
        parts[::2] = [group.expression.sub(instead, part) for part in parts[::2]]
        return "".join(parts)

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
        kind = ""
        for n, token in enumerate(tokens):
            if token[0] == '"':
                is_key = "".join(tokens[n + 1 : n + 3]).lstrip()[:1] == ":"
                value = json.loads(token)
                new = self._value(value, "" if is_key else kind, depth)
                if is_key:
                    kind = kind_of_key(value)
                changed = new != value
                parts.append(json.dumps(new, ensure_ascii=token.isascii()) if changed else token)
            elif token[0] == "}":
                kind = ""
                parts.append(token)
            elif token[0] in "-0123456789":
                new = self._value(token, kind if kind in ("serial", "chip") else "", 0)
                parts.append(token if new == token else json.dumps(new))
            else:
                parts.append(token)
        return "".join(parts)

    def _value(self, value: str, kind: str, depth: int) -> str:
        if kind and value.strip() and not _PUT_IN.fullmatch(value):
            return self._placeholder(kind, value)
        return self._any(value, depth - 1) if depth > 0 else self._text(value)


class _Group:
    """An expression, and what its matches mean."""

    def __init__(self, pattern: Pattern | None = None) -> None:
        self.pattern = pattern
        self.expression = pattern.expression if pattern else re.compile("(?!)")
        self.secrets: list[Secret] = []

    def meaning(self, found: re.Match[str]) -> tuple[str, str, str]:
        """Kind ("": nothing), value, and what stands for it."""
        if self.pattern:
            return (self.pattern.kind if self.pattern.meant(found) else "", found["value"], "")
        secret = self.secrets[int((found.lastgroup or "s0")[1:])]
        return secret.kind, secret.value, secret.instead


def _joined(secrets: Iterable[Secret]) -> _Group:
    """All of them in one expression, the longest first."""
    group = _Group()
    group.secrets = sorted(set(secrets), key=lambda s: (-len(s.value), s.value, s.kind))
    if group.secrets:
        parts = (f"(?P<s{n}>{secret.pattern()})" for n, secret in enumerate(group.secrets))
        group.expression = re.compile("|".join(parts), re.IGNORECASE)
    return group


def _is_json(text: str) -> bool:
    """It is an object or a list."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    with suppress(ValueError, RecursionError):
        json.loads(text, parse_int=len, parse_float=len)
        return True
    return False


def _squeezed(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*[a-zA-Z]|\s+", "", text).lower()
