"""Bytes of tokens to text, where a character may be spread over several tokens."""

from __future__ import annotations

import codecs


class Utf8Stream:
    """Decodes bytes as they come.

    A character that is not complete yet waits. A byte that can never become part of a character is
    replaced by U+FFFD, as `bytes.decode(errors="replace")` does.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, data: bytes) -> str:
        """Return the text that `data` completes; may be empty."""
        return self._decoder.decode(data)

    def flush(self) -> str:
        """End the stream and return the text still due: none, as half a character is no text.

        An answer that ends at its token limit may end inside a character; that must not show.
        """
        self._decoder.reset()
        return ""
