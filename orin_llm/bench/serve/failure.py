"""How a request can fail: in few kinds, which are counted, and one line of what happened."""

from __future__ import annotations

_MOST = 200  # characters of what a server says that are repeated


class Failure(Exception):
    """A request that failed; `kind` is one of few: connect, tls, timeout, HTTP 429, stream, …"""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def excerpt(text: str | bytes) -> str:
    """What a server said, in one line that is not too long."""
    if isinstance(text, bytes):
        text = text[: 4 * _MOST].decode(errors="replace")
    line = " ".join(text[: 4 * _MOST].split())
    return repr(line if len(line) <= _MOST else line[:_MOST] + "…")
