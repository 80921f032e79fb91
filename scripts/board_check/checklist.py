"""The list that is printed, and lies in the archive: passed, failed, not run, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from board_check.target import PROGRAM
from checking.steps import Context, Step

_NOT_RUN = ("dropped", "skipped", "interrupted")


def verdict(entry: dict[str, Any] | None) -> str:
    """Of a step's entry in the record."""
    if entry is None or entry["status"] in _NOT_RUN:
        return "not run"
    return "passed" if entry["status"] == "done" else "failed"


def checklist(
    steps: Sequence[Step[Context]], found: dict[str, Any], restrictions: Sequence[str]
) -> str:
    """A line for each step; below it what is not so, and what to do."""
    lines = [f"note      {line}" for line in restrictions]
    for step in steps:
        lines += _of_step(step, found.get(step.name))
    counts = [verdict(found.get(step.name)) for step in steps]
    total = ", ".join(f"{counts.count(word)} {word}" for word in ("passed", "failed", "not run"))
    lines += ["", total]
    if any(_is_left(found.get(step.name)) for step in steps):
        lines.append(f"to do: {PROGRAM} again: it goes on with what is not done")
    return "\n".join(lines)


def _is_left(entry: dict[str, Any] | None) -> bool:
    """It was not run, and could be."""
    return verdict(entry) == "not run" and (entry is None or entry["status"] != "skipped")


def _of_step(step: Step[Context], entry: dict[str, Any] | None) -> Iterator[str]:
    word = verdict(entry)
    head = f"{word:8}  {step.name:8}  "
    if entry is None:
        yield f"{head}{step.does}: not tried yet"
        return
    result = entry["result"]
    said = result.get("said", "")
    why = entry.get("error", "")
    seconds = f" ({entry['seconds']:.0f} s)" if "seconds" in entry else ""
    yield f"{head}{step.does}: {said or why.splitlines()[0] if said or why else word}{seconds}"
    if not said:
        yield from (f"{'':20}{line.strip()}" for line in why.splitlines()[1:])
    for one in result.get("checks", []):
        if one["passed"] is not True:
            mark = "not so" if one["passed"] is False else "cannot be told"
            yield f"{'':20}{mark}: {one['what']}: {one['found']}"
            if one["passed"] is False and one["to_do"]:
                yield f"{'':20}to do: {one['to_do']}"
