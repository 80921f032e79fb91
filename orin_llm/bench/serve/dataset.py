"""Prompts out of a file: JSON lines with texts or conversations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_llm.bench.serve.prompts import Prompt
from orin_llm.errors import UsageError
from orin_llm.text.text_input import read_text_file

_EXPECTED = 'expected {"prompt": TEXT} or {"messages": [{"role": …, "content": TEXT}, …]}'


@dataclass(frozen=True)
class Entry:
    """One line. `max_tokens` is None where the line does not say it."""

    prompt: Prompt
    max_tokens: int | None


def read_dataset(path: Path) -> tuple[Entry, ...]:
    """Read the prompts of a file in their order; fields that are not known are ignored.

    Raises:
        OrinError: it cannot be read as text.
        UsageError: a line is not of this kind; the message names it.
    """
    text = read_text_file(path, purpose="a list of prompts")
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise UsageError(f"{path} has no prompts: {_EXPECTED} in each line")
    return tuple(_entry(line, f"{path}, line {number}") for number, line in lines)


def _entry(line: str, where: str) -> Entry:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: no JSON: {error}") from None
    if not isinstance(row, dict):
        raise UsageError(f"{where}: {_EXPECTED}")
    most = row.get("max_tokens")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise UsageError(f"{where}: max_tokens is {most!r}: expected a whole number from 1")
    prompt, messages = row.get("prompt"), row.get("messages")
    if isinstance(prompt, str) and prompt and messages is None:
        return Entry(Prompt.of(prompt), most)
    if prompt is None and isinstance(messages, list) and messages and all(map(_right, messages)):
        return Entry(Prompt(tuple(messages)), most)
    raise UsageError(f"{where}: {_EXPECTED}")


def _right(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and isinstance(message.get("role"), str)
        and isinstance(message.get("content"), str)
    )
