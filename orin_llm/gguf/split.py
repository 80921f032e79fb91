"""Models cut into several files, `NAME-00001-of-00003.gguf` …: the parts that belong together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from orin_llm.errors import ModelFileError

_PART = re.compile(r"(?P<base>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)


@dataclass(frozen=True)
class FileGroup:
    """The file or files of one model, in order.

    Attributes:
        base: the common name: without the `-00001-of-00003.gguf` of parts, or without `.gguf`.
        files: all parts, the first first.
    """

    base: str
    files: tuple[str, ...]


def parts_of(file: str) -> tuple[str, ...]:
    """All the parts that the file's name announces, in order; the file alone if it is whole.

    Raises:
        ModelFileError: a part number of 0 or beyond the count.
    """
    match = _PART.fullmatch(file)
    if not match:
        return (file,)
    base, part, count = match["base"], int(match["part"]), int(match["count"])
    if not 1 <= part <= count:
        raise ModelFileError(
            f"{file} calls itself part {part} of {count}: expected a part from 1 to {count}",
            path=file,
        )
    suffix = file[-len(".gguf") :]
    return tuple(f"{base}-{n:05d}-of-{count:05d}{suffix}" for n in range(1, count + 1))


def part_paths(file: Path) -> tuple[Path, ...]:
    """The files that `parts_of` names, in the same folder. Raises ModelFileError as it does."""
    return tuple(file.with_name(name) for name in parts_of(file.name))


def files_there(first: Path) -> tuple[Path, ...]:
    """The files of a model, by their names: all parts where all are there, else this one alone."""
    try:
        parts = part_paths(first)
    except ModelFileError:
        return (first,)
    return parts if all(part.is_file() for part in parts) else (first,)


def group(files: Iterable[str]) -> list[FileGroup]:
    """Put the parts of each model together, sorted by name. Incomplete models are left out."""
    present = set(files)
    groups: dict[tuple[str, ...], FileGroup] = {}
    for file in sorted(present):
        if not file.lower().endswith(".gguf"):
            continue
        try:
            parts = parts_of(file)
        except ModelFileError:
            continue
        if not present.issuperset(parts):
            continue
        match = _PART.fullmatch(file)
        groups[parts] = FileGroup(match["base"] if match else file[: -len(".gguf")], parts)
    return list(groups.values())
