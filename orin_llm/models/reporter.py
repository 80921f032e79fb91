"""What long work tells whoever watches: the command line draws it, a library may ignore it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far a step is.

    Attributes:
        step: what is being done, such as `fetching x.gguf`; a new text begins a new step.
        done: bytes done, those of an earlier attempt included.
        total: bytes in all, or None where it is not known.
    """

    step: str
    done: int
    total: int | None


class Reporter:
    """Receives messages and progress. This one drops them; override what is wanted."""

    def message(self, text: str) -> None:
        """One line for the user, such as the licence or a retry."""

    def progress(self, progress: Progress) -> None:
        """Called often while a step runs; draw as seldom as you like."""
