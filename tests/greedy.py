"""Greedy text as a proof: token ids with the margin by which each was the likeliest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from stepping import step_probe

from orin_llm.engine import Completion, Engine


@dataclass(frozen=True)
class GreedyText:
    """The likeliest token at each place, and its logit gap to the second likeliest."""

    ids: list[int]
    margins: list[float]

    def first_difference(self, other: GreedyText) -> int | None:
        """The first place where the ids differ, or None."""
        for place, (a, b) in enumerate(zip(self.ids, other.ids, strict=True)):
            if a != b:
                return place
        return None

    def agrees_with(self, other: GreedyText, tie: float) -> bool:
        """Whether the ids are equal, or first differ where the top two logits are within `tie`.

        After such a place the texts are different texts and say nothing more.
        """
        place = self.first_difference(other)
        return place is None or min(self.margins[place], other.margins[place]) <= tie


def text_of(completion: Completion) -> GreedyText:
    """What a greedy completion with logprobs=2 writes; margins are of log-probabilities."""
    places = [place for chunk in completion for place in chunk.logprobs]
    margins = [place.top[0][1] - place.top[1][1] for place in places]
    return GreedyText([place.token for place in places], margins)


def greedy_text(engine: Engine, prompt: Sequence[int], n: int) -> GreedyText:
    """Write n tokens after a prompt, end tokens included."""
    session = step_probe(engine)
    session.prefill(list(prompt))
    ids: list[int] = []
    margins: list[float] = []
    for _ in range(n):
        logits = session.logits()
        second, first = np.partition(logits, -2)[-2:]
        ids.append(int(logits.argmax()))
        margins.append(float(first - second))
        session.decode(ids[-1])
    return GreedyText(ids, margins)
