"""What has to be closed, and does so at the end of a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

Self = TypeVar("Self", bound="Closeable")


class Closeable(ABC):
    """A context manager that gives itself, and is closed whatever ends the block."""

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()
