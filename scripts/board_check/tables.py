"""Columns of tables, by the words above them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from board_check.finders import Hit, Ways
from board_check.patterns import kind_of_key

_MOST_WORDS = 3  # of a head; prose has commas, too
_WORD = re.compile(r"\S+")
_CELLS = {mark: re.compile(rf"(?:^|(?<={re.escape(mark)}))[^{mark}\r\n]*") for mark in ",;|\t"}


@dataclass(frozen=True)
class _Table:
    """Kinds of values, by the number of a cell, or by where its column and the next begin."""

    cell: re.Pattern[str]
    cells: int
    kinds: dict[tuple[int, int], str]

    def values(self, line: str) -> Iterator[tuple[re.Match[str], str]]:
        found = list(self.cell.finditer(line))
        if self.cell is not _WORD and len(found) != self.cells:
            return
        for n, value in enumerate(found):
            first, last = value.span() if self.cell is _WORD else (n, n + 1)
            for (begin, end), kind in self.kinds.items():
                if first < end and last > begin and re.search(r"\w", value[0]):
                    yield value, kind


class Columns:
    """Finds values below words that tell what they are: in cells between marks (CSV), or below
    heads that are all capitals (lsblk, nmcli)."""

    def find(self, ways: Ways) -> Iterator[Hit]:
        table = None
        start = 0
        last = ""
        for line in ways.text.splitlines(keepends=True):
            if not line.strip():
                table = None
            elif head := _head(line, last):
                table = head
            elif table:
                for value, kind in table.values(line):
                    inner = value[0].strip(" \t\"'")
                    at = start + value.start() + value[0].index(inner)
                    yield Hit(at, at + len(inner), kind, inner)
            start += len(line)
            last = line


def _head(line: str, last: str) -> _Table | None:
    """What a line is the head of; no row of a table that has begun in the last line is one."""
    for mark, cell in _CELLS.items():
        if mark in line and line.count(mark) != last.count(mark):
            found = list(cell.finditer(line))
            kinds = {(n, n + 1): k for n, one in enumerate(found) if (k := _kind(one[0]))}
            if kinds and all(len(one[0].split()) <= _MOST_WORDS for one in found):
                return _Table(cell, len(found), kinds)
    words = list(_WORD.finditer(line))
    if len(words) < 2 or not line.isupper():
        return None
    ends = [word.start() for word in words[1:]] + [1 << 30]
    kinds = {(word.start(), end): kind for word, end in zip(words, ends, strict=True)
             if (kind := _kind(word[0])) and word[0] != "HOST"}  # fmt: skip  # a time, in a trace
    return _Table(_WORD, len(words), kinds) if kinds else None


def _kind(head: str) -> str:
    kind = kind_of_key(head.strip(" \t\"'"))
    return "" if kind == "version" else kind
