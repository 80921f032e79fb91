"""Bytes of tokens to text, where a character may be spread over several tokens."""

from __future__ import annotations

import codecs


class Utf8Stream:
    """Decodes bytes as they come.

    A character that is not complete yet waits; where the bytes end inside one, it never shows. A
    byte that can never become part of a character is replaced by U+FFFD, as
    `bytes.decode(errors="replace")` does.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, data: bytes) -> str:
        """Return the text that `data` completes; may be empty."""
        return self._decoder.decode(data)
