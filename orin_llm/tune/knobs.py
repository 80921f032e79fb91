"""What can be turned: knobs, one value of each (a candidate), and all combinations (a space)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.engine import EngineConfig

Value = int | str
KERNELS = "kernels"


@dataclass(frozen=True)
class Knob:
    """One thing that can be set.

    Attributes:
        name: as reports call it.
        values: that are tried; numbers ascend, so that neighbours are alike. The default is one.
        default: what the engine takes when nobody says anything.
        field: of `EngineConfig`; "" where it is called like the knob. Several knobs may be of
            `kernels`: each value is a text of choices, and "" leaves them to the device.
    """

    name: str
    values: tuple[Value, ...]
    default: Value
    field: str = ""

    def __post_init__(self) -> None:
        if self.default not in self.values:
            raise UsageError(
                f"{self.name} has no value {self.default!r}, its default: it is measured, too"
            )
        if len(set(self.values)) != len(self.values):
            raise UsageError(f"{self.name} has a value twice: {self.values}")

    @property
    def target(self) -> str:
        """The field of `EngineConfig`."""
        return self.field or self.name


@dataclass(frozen=True)
class Candidate(Mapping[str, Value]):
    """One value for each knob, in the order of the knobs."""

    pairs: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Candidate:
        return cls(tuple(values.items()))

    def __getitem__(self, name: str) -> Value:
        for own, value in self.pairs:
            if own == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def having(self, name: str, value: Value) -> Candidate:
        """The same with another value of one knob."""
        return Candidate(tuple((own, value if own == name else old) for own, old in self.pairs))

    @property
    def text(self) -> str:
        """`chunk_size 512, page_size 16`."""
        return ", ".join(f"{name} {'-' if value == '' else value}" for name, value in self.pairs)


def _any(candidate: Candidate) -> bool:
    return True


@dataclass(frozen=True)
class Space:
    """All combinations of the knobs' values that `allowed` lets through.

    Attributes:
        allowed: whether a combination makes sense; the default always does.
    """

    knobs: tuple[Knob, ...]
    allowed: Callable[[Candidate], bool] = field(default=_any, repr=False, compare=False)

    @property
    def default(self) -> Candidate:
        """What an engine takes when nobody says anything."""
        return Candidate(tuple((knob.name, knob.default) for knob in self.knobs))

    def candidates(self) -> Iterator[Candidate]:
        """Every combination, the last knob changing fastest."""
        names = [knob.name for knob in self.knobs]
        for values in product(*(knob.values for knob in self.knobs)):
            candidate = Candidate(tuple(zip(names, values, strict=True)))
            if self.allowed(candidate):
                yield candidate

    @property
    def combinations(self) -> int:
        """How many there are, those that are not allowed included."""
        return math.prod(len(knob.values) for knob in self.knobs)

    def knob(self, name: str) -> Knob:
        """Raises KeyError where there is none of this name."""
        for knob in self.knobs:
            if knob.name == name:
                return knob
        raise KeyError(name)

    def settings(self, candidate: Candidate) -> dict[str, Value]:
        """By the fields of `EngineConfig`: what a profile keeps. Texts of kernels are one text."""
        found: dict[str, Value] = {}
        for name, value in candidate.pairs:
            target = self.knob(name).target
            if target == KERNELS:
                parts = [str(part) for part in (found.get(KERNELS, ""), value) if part]
                found[KERNELS] = ",".join(parts)
            else:
                found[target] = value
        if not found.get(KERNELS, "-"):
            del found[KERNELS]
        return found

    def config(self, candidate: Candidate, base: EngineConfig) -> EngineConfig:
        """An engine's configuration with these settings.

        Raises UsageError where the engine has no such setting or value.
        """
        try:
            return replace(base, **self.settings(candidate))  # type: ignore[arg-type]
        except TypeError as error:
            raise UsageError(f"the engine cannot be set like this: {error}") from None
