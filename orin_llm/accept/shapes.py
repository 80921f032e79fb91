"""What is asked of the engine for each indicator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from orin_llm.host.units import counted

MOST_TOKENS = 1 << 22
MOST_REQUESTS = 10_000


@dataclass(frozen=True)
class TtftShape:
    """Requests one after another, each from an empty KV cache."""

    requests: int
    prompt_tokens: int
    max_tokens: int

    @property
    def text(self) -> str:
        return f"{counted(self.requests, 'request')}, {in_out(self.prompt_tokens, self.max_tokens)}"


@dataclass(frozen=True)
class GrowthShape:
    """Requests one after another; `compared_tokens` at both ends of each answer are compared."""

    requests: int
    prompt_tokens: int
    max_tokens: int
    compared_tokens: int

    @property
    def text(self) -> str:
        lengths = in_out(self.prompt_tokens, self.max_tokens)
        asked = f"{counted(self.requests, 'request')}, {lengths}"
        return f"{asked}: its first and last {self.compared_tokens}"


@dataclass(frozen=True)
class LoadShape:
    """`rounds` times, `streams` requests that come at once."""

    rounds: int
    streams: int
    prompt_tokens: int
    max_tokens: int

    @property
    def text(self) -> str:
        lengths = in_out(self.prompt_tokens, self.max_tokens)
        return f"{self.rounds} × {counted(self.streams, 'request')} at once, {lengths}"


@dataclass(frozen=True)
class PagesShape:
    """`streams` requests that come at once."""

    streams: int
    prompt_tokens: int
    max_tokens: int

    @property
    def text(self) -> str:
        lengths = in_out(self.prompt_tokens, self.max_tokens)
        return f"{counted(self.streams, 'request')} at once, {lengths}"


@dataclass(frozen=True)
class RopeShape:
    """One request that fills the context, beside all others of the check."""

    max_tokens: int

    @property
    def text(self) -> str:
        return f"all requests of this check, and one that fills the context, {self.max_tokens} out"


@dataclass(frozen=True)
class PerplexityShape:
    """Windows of a text, of which the second half counts."""

    windows: int
    window_tokens: int

    @property
    def text(self) -> str:
        return f"{self.windows} windows of {self.window_tokens} tokens"


@dataclass(frozen=True)
class ThroughputShape:
    """Requests that come at once, `batch` of them computed together."""

    requests: int
    batch: int
    prompt_tokens: int
    max_tokens: int

    @property
    def text(self) -> str:
        lengths = in_out(self.prompt_tokens, self.max_tokens)
        return f"batch {self.batch}: {counted(self.requests, 'request')}, {lengths}"


@dataclass(frozen=True)
class Shapes:
    """One for each indicator, by its name."""

    ttft: TtftShape
    growth: GrowthShape
    load: LoadShape
    pages: PagesShape
    rope: RopeShape
    perplexity: PerplexityShape
    throughput: ThroughputShape

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def in_out(prompt_tokens: int, max_tokens: int) -> str:
    """`32 tokens in, 8 out`."""
    return f"{prompt_tokens} tokens in, {max_tokens} out"


_KINDS = {
    "ttft": TtftShape,
    "growth": GrowthShape,
    "load": LoadShape,
    "pages": PagesShape,
    "rope": RopeShape,
    "perplexity": PerplexityShape,
    "throughput": ThroughputShape,
}
_LEAST = {
    ("ttft", "requests"): 2,  # a deviation of fewer is none
    ("growth", "compared_tokens"): 2,  # the gap between two is the shortest TPOT
    ("perplexity", "window_tokens"): 16,
}
_MOST = {("throughput", "batch"): 64, ("pages", "streams"): 64, ("load", "streams"): 64}


def shapes_of(tables: Mapping[str, Any], base: Shapes | None) -> Shapes:
    """The shapes of `[shape.…]` tables; what they do not say is as in `base`.

    Raises ValueError where a table or a value cannot be, or something is missing without a base.
    """
    for name in tables:
        if name not in _KINDS:
            raise ValueError(f"there is no [shape.{name}]. Allowed: {', '.join(_KINDS)}")
    made: dict[str, Any] = {}
    for name, kind in _KINDS.items():
        table = tables.get(name, {})
        if not isinstance(table, Mapping):
            raise ValueError(f"shape.{name} is {table!r}: expected a table, [shape.{name}]")
        _check(name, table, [entry.name for entry in fields(kind)])
        made[name] = kind(**table) if base is None else replace(getattr(base, name), **table)
    shapes = Shapes(**made)
    _require_apart(shapes.growth)
    return shapes


def _check(name: str, table: Mapping[str, Any], allowed: list[str]) -> None:
    for key, value in table.items():
        if key not in allowed:
            raise ValueError(f"there is no shape.{name}.{key}. Allowed: {', '.join(allowed)}")
        least = _LEAST.get((name, key), 1)
        most = _MOST.get((name, key), MOST_TOKENS if key.endswith("tokens") else MOST_REQUESTS)
        if type(value) is not int or not least <= value <= most:
            raise ValueError(
                f"shape.{name}.{key} is {value!r}: expected a whole number, {least} … {most}"
            )


def _require_apart(shape: GrowthShape) -> None:
    if 2 * shape.compared_tokens > shape.max_tokens:
        raise ValueError(
            f"shape.growth compares the first {shape.compared_tokens} tokens with the last "
            f"{shape.compared_tokens} of {shape.max_tokens}: choose longer answers (max_tokens) or "
            "fewer compared_tokens"
        )
