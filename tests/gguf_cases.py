"""Broken files by kind: a sound tiny model with one thing wrong, and what the refusal must say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gguf_bytes import Image, Tensor, Typed, tiny_llama

from orin_llm._native import check_gguf
from orin_llm.errors import ModelFileError

SMALL: dict[str, Any] = {"n_embd": 32, "n_ff": 32, "n_vocab": 16, "n_layer": 2}
ATTN_Q = "blk.0.attn_q.weight"


@dataclass(frozen=True)
class Case:
    """A broken file: `field` is reported, at the offset of `mark` (None: no single place)."""

    name: str
    image: Callable[[], Image]
    field: str
    mark: str | None
    says: str
    skip: int = 0  # bytes behind the mark


def patched(
    name: str,
    mark: str,
    layout: str,
    value: Any,
    says: str,
    *,
    field: str | None = None,
    at: str | None = None,
    skip: int = 0,
) -> Case:
    """One field of a sound model overwritten; reported under its own name and place by default."""
    return Case(
        name,
        lambda: tiny_llama(**SMALL).patched(mark, layout, value),
        mark.rsplit("/", 1)[0] if field is None else field,
        at or mark,
        says,
        skip,
    )


def key(name: str, key: str, value: Typed | None, says: str, *, arch: str = "llama") -> Case:
    """One metadata value of a sound model replaced, or removed (None)."""
    return Case(
        name,
        lambda: tiny_llama(arch=arch, metadata={key: value}, **SMALL),
        key,
        None if value is None else f"{key}/value",
        says,
    )


def weight(name: str, tensor: Tensor | None, field: str, says: str) -> Case:
    """One tensor of a sound model replaced, or removed (None)."""
    return Case(
        name,
        lambda: tiny_llama(tensors={field: tensor}, **SMALL),
        field,
        None if tensor is None else f"{field}/entry",
        says,
    )


def refused(path: Path, data: bytes) -> ModelFileError:
    """The error for a file with these bytes."""
    path.write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        check_gguf(path)
    return caught.value


def assert_refused(case: Case, path: Path) -> None:
    image = case.image()
    error = refused(path, image.data)
    assert case.says in str(error)
    assert error.field == case.field
    assert error.offset == (None if case.mark is None else image.marks[case.mark] + case.skip)
    assert error.path == str(path)
    assert str(error).startswith(f"{path}: ")
