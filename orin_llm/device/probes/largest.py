"""The largest size that can be had, of sizes of which only trying tells."""

from __future__ import annotations

import time
from collections.abc import Callable


def largest_that_fits(
    fits: Callable[[int], bool], most: int, step: int, give_up_s: float = float("inf")
) -> int:
    """The largest multiple of `step` up to `most` that fits, by bisection; 0 if none does.

    Smaller sizes than one that fits must fit. After `give_up_s` it is the largest found so far.
    """
    end = time.monotonic() + give_up_s
    fitting, failing = 0, most // step + 1
    trial = failing - 1  # most often all of it can be had
    while fitting + 1 < failing and time.monotonic() < end:
        if fits(trial * step):
            fitting = trial
        else:
            failing = trial
        trial = (fitting + failing) // 2
    return fitting * step
