"""Fields of a dataclass have their declared types, or a UsageError says which has not."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, get_args, get_type_hints

from orin_llm.errors import UsageError

_EXPECTED = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "text",
    type(None): "None",
}
_ACCEPTED: dict[type, Any] = {int: Integral, float: Real}  # NumPy's, too


def check_field_types(record: Any) -> None:
    """Looks at fields of plain types (numbers, text, None, and unions of them); others may be all.

    Args:
        record: an instance of a dataclass.

    Raises:
        UsageError: naming the first field that is of another type, and what it is.
    """
    record_type: Any = type(record)
    for name, types in _plain_fields(record_type):
        value = getattr(record, name)
        if not any(_is_a(value, kind) for kind in types):
            expected = " or ".join(_EXPECTED[kind] for kind in types)
            raise UsageError(f"{name} is {value!r}: expected {expected}")


def _is_a(value: object, kind: type) -> bool:
    if isinstance(value, bool):  # which Python counts among the whole numbers
        return kind is bool
    return isinstance(value, _ACCEPTED.get(kind, kind))


@cache
def _plain_fields(record: type[Any]) -> list[tuple[str, tuple[type, ...]]]:
    hints = get_type_hints(record)
    found = []
    for field in fields(record):
        hint = hints[field.name]
        types = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if all(kind in _EXPECTED for kind in types):
            found.append((field.name, types))
    return found
