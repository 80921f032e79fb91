"""Keeping control tokens that a message spells out apart from those a chat template writes.

Both are text when a template has run. So a mark, a private-use character that occurs nowhere else,
goes into each control token's text inside the messages before the template runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from orin_llm.text.template import TemplateError

PRIVATE_USE = range(0xE000, 0xF900)
# Templates compare the values of these keys and build control tokens around them.
TEMPLATE_WORDS = ("role", "type")
_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")


class MarkedText:
    """A text in which marks break the control tokens that must stay text."""

    def __init__(self, text: str, mark: str) -> None:
        self.text = text
        self.mark = mark
        # A template may write JSON in ASCII, and the mark with it.
        self._marks = re.compile(f"{re.escape(mark)}|{re.escape(_escaped(mark))}")

    @property
    def plain(self) -> str:
        """The text without marks."""
        return self.unmark(self.text)

    def unmark(self, text: str) -> str:
        return self._marks.sub("", text)

    @property
    def is_marked(self) -> bool:
        return self._marks.search(self.text) is not None

    def after(self, length: int) -> MarkedText:
        """What follows the first `length` characters of the plain text."""
        skipped = 0
        for found in self._marks.finditer(self.text):
            if found.start() - skipped >= length:
                break
            skipped += len(found.group())
        return MarkedText(self.text[length + skipped :], self.mark)


class Marker:
    """Puts marks into the strings of messages, tools and template variables.

    Args:
        controls: texts of the control tokens. A text of one character has no inside for a mark and
            is let through.
    """

    def __init__(self, controls: Iterable[str]) -> None:
        longest_first = sorted((text for text in controls if len(text) > 1), key=len, reverse=True)
        self._controls = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._beginnings = {text[:end] for text in longest_first for end in range(1, len(text))}
        self._longest = max(map(len, longest_first), default=0)

    def mark_all(self, value: Any, mark: str, *, is_word: bool = False) -> Any:
        """The same nested value with marks in its strings and keys."""
        if isinstance(value, str):
            return self._mark(value, mark, is_word)
        if isinstance(value, dict):
            return {
                self.mark_all(key, mark, is_word=True): self.mark_all(
                    item, mark, is_word=key in TEMPLATE_WORDS
                )
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return type(value)(self.mark_all(item, mark) for item in value)
        return value

    def _mark(self, text: str, mark: str, is_word: bool) -> str:
        marked = 1
        while marked:  # a control token's text may contain another's
            text, marked = self._controls.subn(lambda m: m[0][0] + mark + m[0][1:], text)
        # What begins like a control token could become one with the text that comes next.
        lengths = range(1, min(self._longest, len(text) + 1))
        if not is_word and any(text[-length:] in self._beginnings for length in lengths):
            text += mark
        return text


def unused_character(texts: Iterable[str]) -> str:
    """A private-use character that none of the texts contains, nor its JSON escape.

    Raises:
        TemplateError: they contain all of them.
    """
    used: set[str] = set()
    for text in texts:
        used.update(text, _ESCAPE.findall(text))
    for character in map(chr, PRIVATE_USE):
        if character not in used and _escaped(character) not in used:
            return character
    raise TemplateError(
        f"the conversation contains every one of {len(PRIVATE_USE)} private-use characters: "
        "one must be free to mark control tokens"
    )


def strings_of(value: Any) -> Iterator[str]:
    """Every string in a nested value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings_of(key)
            yield from strings_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings_of(item)


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]
