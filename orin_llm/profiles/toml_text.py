"""TOML out of plain values: tables at the top, everything below them inline."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LEAST_INT, _MOST_INT = -(1 << 63), (1 << 63) - 1


def toml_text(document: Mapping[str, Any]) -> str:
    """The document as TOML; what is None is left out, for TOML has no such value.

    Raises ValueError for what TOML has no form for: numbers that are not finite or not of 64 bits,
    values that are no text, number, truth value, sequence or mapping.
    """
    tables = {name: value for name, value in document.items() if isinstance(value, Mapping)}
    lines = _pairs({name: v for name, v in document.items() if name not in tables})
    for name, table in tables.items():
        lines += ["", f"[{_key(name)}]", *_pairs(table)]
    return "\n".join(lines) + "\n"


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_value(v)}" for name, v in table.items() if v is not None]


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        if not _LEAST_INT <= value <= _MOST_INT:
            raise ValueError(f"{value} has more than 64 bits")
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number to write down")
        return repr(value)
    if isinstance(value, Mapping):
        inner = _pairs(value)
        return "{ " + ", ".join(inner) + " }" if inner else "{}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(item) for item in value if item is not None) + "]"
    raise ValueError(f"{value!r} has no form in TOML")


def _string(text: str) -> str:
    clean = text.encode(errors="replace").decode()  # a path that is not UTF-8
    # JSON's escapes are TOML's too, but JSON lets the character DEL stand.
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")
