"""What is dropped where time is short: the least important steps, from the end."""

from __future__ import annotations

from collections.abc import Sequence

from checking.steps import C, Step


def fit(pending: Sequence[Step[C]], left_s: float) -> tuple[list[Step[C]], list[Step[C]]]:
    """Steps that are expected to fit into the time left, in order, and those that are dropped.

    The first of the most important steps is always kept while there is time at all: guesses may be
    wrong, and its own limit ends it.
    """
    kept = list(pending)
    dropped: list[Step[C]] = []
    while kept and sum(step.expected_s for step in kept) > left_s:
        if len(kept) == 1 and left_s > 0:
            break
        least = max(reversed(kept), key=lambda step: step.rank)
        kept.remove(least)
        dropped.append(least)
        idle = [step for step in kept if step.serves and not _is_needed(step, kept)]
        for step in idle:
            kept.remove(step)
            dropped.append(step)
    return kept, dropped


def _is_needed(server: Step[C], kept: Sequence[Step[C]]) -> bool:
    return any(server.name in step.needs for step in kept)
