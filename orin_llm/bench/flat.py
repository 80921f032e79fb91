"""Nested settings as a flat list of names and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def flatten(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested mappings by their path; a list is one leaf, joined by `; `."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{path}{name}.")
        elif isinstance(value, (list, tuple)):
            yield path + name, "; ".join(map(str, value))
        else:
            yield path + name, value
