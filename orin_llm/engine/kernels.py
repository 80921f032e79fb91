"""Which kernels compute products on a GPU, and how their launches are cut, where it is not left to
the defaults for the device."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from orin_llm.errors import UsageError

FORM = "NAME=VALUE,… or @FILE, a JSON file"


@dataclass(frozen=True)
class Kernels:
    """Choices by name, in place of those that follow from the device; docs/engine.md names them."""

    chosen: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, value in self.chosen.items():
            _check(name, value, "the choices of kernels")

    @classmethod
    def parse(cls, text: str) -> Kernels:
        """Read `vector_rows=4,product_tokens=3`, or `@profile.json` (see `read`).

        Raises UsageError saying which choices and values there are.
        """
        text = text.strip()
        if text.startswith("@"):
            return cls.read(text[1:])
        where = f"{text!r} (--kernels, kernels in Python)"
        pairs = []
        for item in text.split(","):
            name, equals, value = (part.strip() for part in item.partition("="))
            if not equals:
                raise UsageError(
                    f"{item.strip()!r} chooses nothing in {where}: expected {FORM}; {_known()}"
                )
            pairs.append((name, _number(name, value, where)))
        return cls(_unique(pairs, where))

    @classmethod
    def read(cls, path: str | Path) -> Kernels:
        """Read a profile: a JSON object with an object `kernels` of choices by name.

        Raises UsageError where it cannot be read, or saying which choices and values there are.
        """
        where = f"the profile {path} (--kernels, kernels in Python)"
        try:
            profile = json.loads(
                Path(path).read_text(encoding="utf-8"),
                object_pairs_hook=lambda pairs: _unique(pairs, where),
            )
        except OSError as error:
            raise UsageError(f"{where} cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where} is no JSON: {error}") from error
        chosen = profile.get("kernels") if isinstance(profile, dict) else None
        if not isinstance(chosen, dict):
            raise UsageError(
                f'{where}: expected an object with an object "kernels" of choices by name'
            )
        for name, value in chosen.items():
            _check(name, value, where)
        return cls(chosen)


@cache
def _choices() -> Mapping[str, Mapping[str, Any]]:
    from orin_llm import _native

    return {choice["name"]: choice for choice in _native.kernel_choices()}


def _known() -> str:
    return f"known choices are {', '.join(_choices())}"


def _expected(name: str) -> str:
    choice = _choices()[name]
    if choice["values"]:
        *others, last = map(str, choice["values"])
        return f"{', '.join(others)} or {last}"
    return f"a whole number, {choice['least']} … {choice['most']}"


def _check(name: object, value: object, where: str) -> None:
    choice = _choices().get(name) if isinstance(name, str) else None
    if choice is None:
        raise UsageError(f"unknown choice {name!r} in {where}: {_known()}")
    is_number = isinstance(value, int) and not isinstance(value, bool)
    values = choice["values"] or range(choice["least"], choice["most"] + 1)
    if not is_number or value not in values:
        raise UsageError(f"{name} is {value!r} in {where}: expected {_expected(str(name))}")


def _number(name: str, text: str, where: str) -> int:
    if name not in _choices():
        raise UsageError(f"unknown choice {name!r} in {where}: {_known()}")
    if not (text.isascii() and text.isdigit()) or len(text) > 12:
        raise UsageError(f"{name} is {text!r} in {where}: expected {_expected(name)}")
    value = int(text)
    _check(name, value, where)
    return value


def _unique(pairs: Iterable[tuple[str, Any]], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{name!r} is twice in {where}: leave one of them out")
        found[name] = value
    return found
