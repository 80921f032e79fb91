"""What long work tells whoever watches: the command line draws it, a library may ignore it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far a step is.

    Attributes:
        step: what is being done, such as `fetching x.gguf`; a new text begins a new step.
        done: what is done, that of an earlier attempt included.
        total: how much there is in all, or None where it is not known.
        unit: what is counted, such as `windows`; bytes are shown as sizes.
    """

    step: str
    done: int
    total: int | None
    unit: str = "bytes"


class Reporter:
    """Receives messages and progress. This one drops them; override what is wanted."""

    def message(self, text: str) -> None:
        """One line for the user, such as the licence or a retry."""

    def progress(self, progress: Progress) -> None:
        """Called often while a step runs; draw as seldom as you like."""
