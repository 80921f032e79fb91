"""What the view has seen so far, bounded: the past of its figures, and events."""

from __future__ import annotations

import copy
from collections import deque

from orin_llm.cli.live.engine import engine_values
from orin_llm.cli.live.history import History
from orin_llm.cli.live.machine import machine_values
from orin_llm.monitor.state import AlertEvent, State

MAX_EVENTS = 100


class Story:
    """The states of a feed, one after the other.

    Attributes:
        state: the newest one; None before the first.
        seen: the machine's figures that were ever read.
        events: the newest ones, the newest last.
    """

    def __init__(self, interval_s: float) -> None:
        self.state: State | None = None
        self.history = History(interval_s)
        self.seen: set[str] = set()
        self.events: deque[AlertEvent] = deque(maxlen=MAX_EVENTS)

    def add(self, state: State) -> None:
        """Go on to this state."""
        values = machine_values(state.snapshot.reading)
        self.seen |= {key for key, value in values.items() if value is not None}
        for engine in state.engines:
            values |= engine_values(engine)
        self.history.add(values)
        self.events.extend(state.events)
        self.state = state

    def standing(self) -> Story:
        """A copy that stays as it is while the story goes on."""
        copied = copy.copy(self)  # states and events never change
        copied.history = copy.deepcopy(self.history)
        copied.seen, copied.events = set(self.seen), self.events.copy()
        return copied
