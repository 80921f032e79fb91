"""The limits of the check, by board and model, and the TOML files that set them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from orin_llm.accept.indicators import CRITERIA
from orin_llm.accept.shapes import Shapes, shapes_of
from orin_llm.errors import UsageError
from orin_llm.host.toml_file import read_toml

SHIPPED = Path(__file__).with_name("thresholds.toml")
_MATCHED = ("board", "model", "architecture", "quant", "parameters")


@dataclass(frozen=True)
class Subject:
    """What is judged: a machine and a model, by what entries of a file may name.

    Attributes:
        boards: its names: part number, machine, GPU, processor.
        models: the model's names.
        parameters: elements of all tensors.
    """

    boards: tuple[str, ...]
    models: tuple[str, ...]
    architecture: str
    quant: str
    parameters: int


@dataclass(frozen=True)
class Limit:
    """What a figure is held to, and who says so."""

    value: float
    source: str


@dataclass(frozen=True)
class Entry:
    """`[[limits]]` of a file: for whom, and what.

    Attributes:
        board, model: patterns, of which one must fit; None: any does.
        parameters: from, to.
    """

    name: str
    values: Mapping[str, float]
    board: tuple[str, ...] | None = None
    model: tuple[str, ...] | None = None
    architecture: str | None = None
    quant: str | None = None
    parameters: tuple[float, float] | None = None

    def fits(self, subject: Subject) -> bool:
        """Whether it is for this machine and model."""
        low, high = self.parameters or (subject.parameters, subject.parameters)
        return (
            _any_fits(self.board, subject.boards)
            and _any_fits(self.model, subject.models)
            and self.architecture in (None, subject.architecture)
            and (self.quant is None or self.quant.casefold() == subject.quant.casefold())
            and low <= subject.parameters <= high
        )


@dataclass(frozen=True)
class Thresholds:
    """Everything that files and flags say."""

    entries: tuple[Entry, ...]
    shapes: Shapes

    def limits(self, subject: Subject) -> dict[str, Limit]:
        """Those for this machine and model, by the criterion's name."""
        return {
            name: Limit(value, entry.name)
            for entry in self.entries
            if entry.fits(subject)
            for name, value in entry.values.items()
        }

    def with_flags(self, values: Mapping[str, float | None]) -> Thresholds:
        """The same with limits from the command line, whatever board and model.

        Raises UsageError for one that cannot be.
        """
        given = {name: value for name, value in values.items() if value is not None}
        try:
            for name, value in given.items():
                _check_limit(name, value)
        except ValueError as error:
            raise UsageError(str(error)) from error
        return Thresholds((*self.entries, Entry("the command line", given)), self.shapes)


def read_thresholds(path: Path | None = None) -> Thresholds:
    """What ships, and on top of it what a file says.

    Raises:
        UsageError: the file cannot be read or used; the message says where and what is allowed.
    """
    shipped = _thresholds(SHIPPED, None)
    return shipped if path is None else _thresholds(path, shipped)


def _thresholds(path: Path, base: Thresholds | None) -> Thresholds:
    tables = read_toml(path)
    try:
        _only(tables, ("limits", "shape"), "table")
        limits, shape = tables.get("limits", []), tables.get("shape", {})
        if not isinstance(limits, list) or not all(isinstance(one, dict) for one in limits):
            raise ValueError("limits: expected tables, each begun by [[limits]]")
        if not isinstance(shape, dict):
            raise ValueError(f"shape is {shape!r}: expected tables such as [shape.ttft]")
        entries = tuple(_entry(table, path.name) for table in limits)
        shapes = shapes_of(shape, base.shapes if base else None)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    return Thresholds((*(base.entries if base else ()), *entries), shapes)


def _entry(table: Mapping[str, Any], file_name: str) -> Entry:
    _only(table, ("name", *_MATCHED, *CRITERIA), "key of [[limits]]")
    values = {name: table[name] for name in CRITERIA if name in table}
    for name, value in values.items():
        _check_limit(name, value)
    for key in ("name", "architecture", "quant"):
        if key in table and not isinstance(table[key], str):
            raise ValueError(f"{key} is {table[key]!r}: expected a text")
    return Entry(
        name=table.get("name", file_name),
        values=values,
        board=_patterns(table, "board"),
        model=_patterns(table, "model"),
        architecture=table.get("architecture"),
        quant=table.get("quant"),
        parameters=_range(table.get("parameters")),
    )


def _only(table: Mapping[str, Any], allowed: Sequence[str], what: str) -> None:
    for key in table:
        if key not in allowed:
            raise ValueError(f"there is no {what} {key!r}. Allowed: {', '.join(allowed)}")


def _check_limit(name: str, value: object) -> None:
    most = CRITERIA[name].most
    if type(value) not in (int, float) or not 0 <= value <= most:  # type: ignore[operator]
        raise ValueError(f"{name} is {value!r}: expected a number, 0 … {most:g}")


def _patterns(table: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    value = table.get(key)
    found = [value] if isinstance(value, str) else value
    if found is None:
        return None
    if not isinstance(found, list) or not found or not all(isinstance(v, str) for v in found):
        raise ValueError(f"{key} is {value!r}: expected patterns, such as ['p3701-*']")
    return tuple(found)


def _range(value: object) -> tuple[float, float] | None:
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(type(number) in (int, float) for number in value)
        or not 0 <= value[0] <= value[1]
    ):
        raise ValueError(f"parameters is {value!r}: expected from and to, such as [8.0e9, 8.1e9]")
    return value[0], value[1]


def _any_fits(patterns: tuple[str, ...] | None, names: Iterable[str]) -> bool:
    if patterns is None:
        return True
    folded = [name.casefold() for name in names]
    return any(fnmatchcase(name, pattern.casefold()) for pattern in patterns for name in folded)
