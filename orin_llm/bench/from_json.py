"""Frozen dataclasses from what `asdict` and JSON made of them, every member checked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class WrongMember(Exception):
    """The message names the member by its path, what was expected and what was found."""


def from_json(kind: type[T], data: Any, where: str = "") -> T:
    """The dataclass of these members.

    Members that it does not know are left out, as newer versions write more; those that have a
    default may be missing. Types may be numbers, texts, booleans, None, `object`, dataclasses,
    tuples and mappings from texts, and unions of them.

    Raises:
        WrongMember: one is missing or of another type.
    """
    if not isinstance(data, dict):
        raise WrongMember(f"{where or 'it'} is {_short(data)}: expected an object")
    values: dict[str, Any] = {}
    for name, (hint, required) in _members(kind).items():
        path = f"{where}.{name}" if where else name
        if name in data:
            values[name] = _value(hint, data[name], path)
        elif required:
            raise WrongMember(f"{path} is missing")
    return kind(**values)


def _members(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The type of each field, and whether it must be there."""
    hints = get_type_hints(kind)
    return {
        one.name: (hints[one.name], one.default is MISSING and one.default_factory is MISSING)
        for one in fields(kind)
    }


def _value(hint: Any, data: Any, where: str) -> Any:
    origin = get_origin(hint)
    if hint in (object, Any):
        return data
    if origin in (Union, UnionType):
        return _one_of(get_args(hint), data, where)
    if origin is tuple:
        return _tuple(get_args(hint), data, where)
    if origin in (dict, Mapping):
        if not isinstance(data, dict):
            raise WrongMember(f"{where} is {_short(data)}: expected an object")
        return {k: _value(get_args(hint)[1], v, f"{where}.{k}") for k, v in data.items()}
    if is_dataclass(hint):
        return from_json(hint, data, where)  # type: ignore[arg-type]
    return _plain(hint, data, where)


def _one_of(hints: tuple[Any, ...], data: Any, where: str) -> Any:
    """None if that may be; else what the first of the others makes of it."""
    if data is None and NoneType in hints:
        return None
    *others, last = [hint for hint in hints if hint is not NoneType]
    for hint in others:
        try:
            return _value(hint, data, where)
        except WrongMember:
            continue
    return _value(last, data, where)


def _tuple(hints: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    any_length = hints[-1:] == (...,)
    if not isinstance(data, list) or not (any_length or len(data) == len(hints)):
        wanted = "an array" if any_length else f"an array of {len(hints)}"
        raise WrongMember(f"{where} is {_short(data)}: expected {wanted}")
    kinds = [hints[0]] * len(data) if any_length else hints
    return tuple(
        _value(kind, entry, f"{where}[{at}]")
        for at, (kind, entry) in enumerate(zip(kinds, data, strict=True))
    )


def _plain(hint: Any, data: Any, where: str) -> Any:
    if hint is float and type(data) in (int, float):
        if abs(data) <= sys.float_info.max:
            return data  # a whole number stays one, and is written as it was
    elif type(data) is hint:
        return data
    names = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}
    raise WrongMember(f"{where} is {_short(data)}: expected {names.get(hint, hint)}")


def _short(data: Any) -> str:
    if isinstance(data, (dict, list)):
        return "an object" if isinstance(data, dict) else "an array"
    text = repr(data)
    return text if len(text) <= 40 else f"{text[:39]}…"
