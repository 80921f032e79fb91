"""What one chat template may use up, and the account of one render."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass

import jinja2


class LimitExceeded(jinja2.TemplateRuntimeError):
    """A template asked for more than the limits allow. The message names the limit."""


@dataclass(frozen=True)
class Limits:
    """Bounds for one template.

    Attributes:
        source_chars: length of its source; the longest templates in use have about 20 000.
        output_chars: length of what one render may produce.
        value_size: characters or items of any single value inside a render.
        steps: loop rounds and calls of one render.
        seconds: time of one render.
    """

    source_chars: int = 1 << 18
    output_chars: int = 1 << 26
    value_size: int = 1 << 24
    steps: int = 1_000_000
    seconds: float = 20.0


class Budget:
    """What one render has left."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._steps = 0
        self._deadline = time.monotonic() + limits.seconds

    def step(self) -> None:
        self._steps += 1
        if self._steps > self._limits.steps:
            raise LimitExceeded(f"more than {self._limits.steps} loop rounds and calls")
        if time.monotonic() > self._deadline:
            raise LimitExceeded(f"more than {self._limits.seconds:g} seconds")


budget: ContextVar[Budget] = ContextVar("template_budget")
