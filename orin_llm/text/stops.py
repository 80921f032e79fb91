"""Stop strings in a stream of text, whatever way the text is cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence

from orin_llm.errors import UsageError


class StopMatcher:
    """Passes text on until a stop string is complete.

    The stop string that is complete first wins; among those complete at the same place, the one
    that began first. Only text that may still become a stop string is held back.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if any(not stop for stop in stops):
            raise UsageError("a stop text is empty: it would end every answer at once")
        self._stops = tuple(stops)
        self._held = ""
        self._hit = False

    def push(self, text: str) -> tuple[str, bool]:
        """Take the next piece.

        Returns:
            The text that can be passed on, and whether a stop string was met. After that nothing
            more is passed on.
        """
        if self._hit:
            return "", True
        text = self._held + text
        begin = self._first_stop(text)
        if begin is not None:
            self._hit = True
            self._held = ""
            return text[:begin], True
        keep = self._possible_stop(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], False

    def flush(self) -> str:
        """End the stream: return what was held back and did not become a stop string."""
        held, self._held = self._held, ""
        return held

    def _first_stop(self, text: str) -> int | None:
        found = [(text.find(stop) + len(stop), text.find(stop)) for stop in self._stops]
        met = [(end, begin) for end, begin in found if begin >= 0]
        return min(met)[1] if met else None

    def _possible_stop(self, text: str) -> int:
        """Length of the longest end of `text` that a stop string begins with."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
