"""Text that streams to a terminal, broken between words instead of at the terminal's edge."""

from __future__ import annotations

import re
import unicodedata

from rich.cells import cell_len

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})([^`]*)$")  # opens or closes a block of code
_LONGEST_FENCE = 200  # characters of a line that are looked at for that


class LineWrapper:
    """Breaks lines at spaces, and between the characters of scripts that write none.

    A word is held back until its end or until it no longer fits its row, so nothing that was
    written ever moves. Left as they are: lines that begin with a blank, and blocks of code between
    lines of ``` or ~~~. What is longer than a row is cut by the terminal.
    """

    def __init__(self) -> None:
        self._line = ""  # how the line began in the text
        self._used = 0  # cells of the terminal's row
        self._blanks = ""  # held back, in front of the word
        self._word = ""  # held back
        self._last = ""  # the word's last character, held back or not
        self._begun = False  # the word's beginning is written: what follows must stay with it
        self._fence = ""  # what closes the block of code

    def feed(self, text: str, columns: int) -> str:
        """What to write once `text` has come, on a terminal that is now `columns` wide."""
        return "".join([self._take(char, columns) for char in text])

    def flush(self, columns: int) -> str:
        """The word that is held back, at the end of the text."""
        return self._place(columns)

    def _take(self, char: str, columns: int) -> str:
        if char == "\n":
            return self._end_word(columns) + self._end_line()
        if len(self._line) < _LONGEST_FENCE:
            self._line += char
        if self._fence or self._line[0] in " \t":
            return char
        if char in " \t":
            placed = self._end_word(columns)
            self._blanks += char
            return placed
        placed = self._end_word(columns) if _may_break(self._last, char) else ""
        self._word += char
        self._last = char
        if self._begun or self._used + self._cells() > columns:
            placed += self._place(columns)
            self._begun = True
        return placed

    def _end_word(self, columns: int) -> str:
        placed = self._place(columns)
        self._last = ""
        self._begun = False
        return placed

    def _end_line(self) -> str:
        fence = _FENCE.match(self._line)
        if fence and not self._fence:
            self._fence = fence[1]
        elif fence and fence[1].startswith(self._fence) and not fence[2].strip():
            self._fence = ""
        self._line = self._blanks = ""
        self._used = 0
        return "\n"

    def _place(self, columns: int) -> str:
        """Put what is held back of the word on this row or the next."""
        if not self._word:
            return ""
        row_end = ""
        if self._used and not self._begun and self._used + self._cells() > columns:
            row_end, self._blanks, self._used = "\n", "", 0
        placed = row_end + self._blanks + self._word
        self._used += self._cells()
        if self._used > columns:  # the terminal has gone on to another row
            self._used = (self._used - 1) % columns + 1
        self._blanks = self._word = ""
        return placed

    def _cells(self) -> int:
        """Cells of what is held back, where tabs reach to every eighth column."""
        row = " " * self._used + self._blanks
        return len(row.expandtabs()) - self._used + cell_len(self._word)


def _may_break(before: str, after: str) -> bool:
    """Whether a line may end between two characters that no blank separates."""
    if not before or unicodedata.category(before) == "Ps":
        return False
    if _is_wide(after, "Lo", "Ps"):  # not other signs, such as a full stop: they end a line
        return True
    return _is_wide(before, "Lo") and after.isascii() and after.isalnum()


def _is_wide(char: str, *categories: str) -> bool:
    wide = unicodedata.east_asian_width(char) in "WF"
    return wide and unicodedata.category(char) in categories
