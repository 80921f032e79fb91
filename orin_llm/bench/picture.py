"""One picture of a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """Drawn when asked.

    Attributes:
        name: for a file, without its ending.
        caption: what it shows, and of what.
    """

    name: str
    draw: Callable[[], Figure]
    caption: str


MOST_OF_A_KIND = 12  # in one report; the JSON has all


def left_out(count: int) -> str:
    """What to say in the last caption where there are more than are drawn."""
    more = count - MOST_OF_A_KIND
    return f" {more} more of these are in the JSON and not drawn." if more > 0 else ""
