"""What every source of models offers to the pull."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orin_llm.models.reporter import Reporter


@dataclass(frozen=True)
class WantedFile:
    """A file to fetch: its name in the store; its size and SHA-256 where the source tells."""

    name: str
    bytes: int | None = None
    sha256: str | None = None


class Source(Protocol):
    """A place that a model comes from, already looked up.

    Attributes:
        reference: what to pull to get the same again; kept in the store, so without secrets.
        default_name: the name of the model where the user chose none.
        files: in order, the one to load first.
        licence: as the source states it, or "" where it does not.
    """

    @property
    def reference(self) -> str: ...
    @property
    def default_name(self) -> str: ...
    @property
    def files(self) -> tuple[WantedFile, ...]: ...
    @property
    def licence(self) -> str: ...

    def fetch(self, file: WantedFile, target: Path, reporter: Reporter) -> None:
        """Put the whole of `file` at `target`; what an interrupted call left beside it is used.

        Raises:
            OrinError: it cannot be had; the message says what to do.
        """
