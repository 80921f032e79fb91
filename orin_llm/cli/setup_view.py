"""What `orin-llm setup` prints for people; `--json` does not come here."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Sequence

from orin_llm.cli.render import tolerate_narrow_encoding, visible
from orin_llm.device.setup.apply import Outcome
from orin_llm.device.setup.plan import Step

_REBOOT = {"no": "", "yes": " (from the next boot on)", "maybe": " (maybe from the next boot on)"}


def print_plan(steps: Sequence[Step]) -> None:
    """Each change with its states, and a sum."""
    tolerate_narrow_encoding(sys.stdout)
    for step in steps:
        for line in _lines(step):
            print(visible(line))
    pending = sum(step.pending for step in steps)
    print(f"{pending} of {len(steps)} to change" if pending else "nothing to change")


def _lines(step: Step) -> Iterator[str]:
    name = step.change.name
    if step.problem:
        yield f"{name}: not possible: {step.problem}"
    elif not step.pending:
        yield f"{name}: already so"
    else:
        yield f"{name}: {step.change.title}{_REBOOT[step.change.reboot]}"
        if step.change.file:
            yield f"    {step.change.file}:"
        for key, value in step.wanted.items():
            yield from _difference(key, step.now.get(key), value)
    if step.waits:
        yield f"    waits for a reboot: {step.waits}"


def _difference(key: str, now: object, wanted: object) -> Iterator[str]:
    if key != "text":
        yield f"    {key}: {_word(now)}" + (f" -> {_word(wanted)}" if now != wanted else "")
        return
    before = str(now).splitlines() if now is not None else []
    after = str(wanted).splitlines() if wanted is not None else []
    changed = difflib.unified_diff(before, after, "", "", lineterm="", n=0)
    for line in changed:
        if not line.startswith(("---", "+++", "@@")):
            yield f"    {line}"


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def print_problems(steps: Sequence[Step]) -> None:
    """On stderr, what was left out and why."""
    for step in steps:
        if step.problem:
            print(f"not possible: {step.change.name}: {visible(step.problem)}", file=sys.stderr)


def print_outcome(outcome: Outcome, verb: str) -> None:
    """What was done, and whether a reboot is needed."""
    print(f"{verb}: {', '.join(outcome.done) or 'nothing'}")
    for waiting in outcome.waiting:
        print(f"waits for a reboot: {waiting}")
    if outcome.waiting:
        print("A reboot is needed; it is up to you: sudo reboot")
