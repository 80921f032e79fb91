"""Arguments in, a line for each step out."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arm64_check.machine import PROCESSOR, emulated_machine
from arm64_check.plan import STEPS
from arm64_check.steps import CheckFailed, Emulated, Step, run_program
from checking.checkout import commit_of_checkout
from checking.ended import Ended, end
from native.errors import BuildError
from orin_llm.errors import OrinError, UsageError
from orin_llm.host.signals import handled
from orin_llm.models.output_file import new_file, require_new

PROGRAM = "scripts/arm64_check.sh"
_EPILOG = """\
A failed step does not stop the others. Times are those of an emulator: they say nothing of a board.
Exit codes: 0 all is well, 1 a step failed, 2 wrong usage, 4 a tool or the emulated machine's files
cannot be had, 130 interrupted, 143 ended by SIGTERM, 129 by a closed terminal.
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Build the product for a 64-bit Arm board, and check it under an emulator.",
        epilog="steps:\n"
        + "".join(f"  {step.name:16}{step.does}\n" for step in STEPS)
        + f"\n{_EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help="default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was found")
    parser.add_argument("--check-call", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def chosen(names: Sequence[str]) -> list[Step]:
    """The named steps, or all, in order; `module` comes first where one needs it.

    Raises:
        UsageError: there is no such step.
    """
    known = {step.name for step in STEPS}
    for name in names:
        if name not in known:
            raise UsageError(
                f"no step {name!r}: there are {', '.join(step.name for step in STEPS)}"
            )
    named = [step for step in STEPS if not names or step.name in names]
    needs_module = any(step.needs_module for step in named)
    return [step for step in STEPS if step in named or (needs_module and step.name == "module")]


Entries = dict[str, dict[str, Any]]


def run_steps(steps: Sequence[Step], machine: Emulated, entries: Entries) -> None:
    """Each leaves its entry: status, seconds, what was found or the error."""
    for step in steps:
        print(f"{step.name}: {step.does} …", file=sys.stderr, flush=True)
        entries[step.name] = entry = _run(step, machine, entries)
        facts = ", ".join(f"{name} {_plain(value)}" for name, value in entry["found"].items())
        said = entry.get("error") or facts
        print(f"{step.name}: {entry['status']} ({entry['seconds']:.0f} s) {said}", flush=True)


def _run(step: Step, machine: Emulated, before: Entries) -> dict[str, Any]:
    module = before.get("module", {"status": "done"})
    if step.needs_module and module["status"] != "done":
        return {"status": "skipped", "seconds": 0.0, "found": {}, "error": "needs module"}
    begin = time.monotonic()
    found: dict[str, object] = {}
    error = ""
    try:
        found = step.run(machine)
    except (CheckFailed, BuildError, OrinError) as failure:
        error = str(failure)
    except Exception as failure:  # whatever is wrong in one step, the others go on
        error = f"{type(failure).__name__}: {failure}"
    entry: dict[str, Any] = {
        "status": "failed" if error else "done",
        "seconds": round(time.monotonic() - begin, 1),
        "found": found,
    }
    return {**entry, "error": error} if error else entry


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def check(arguments: argparse.Namespace) -> int:
    """Run what is to be run. Raises OrinError."""
    steps = chosen(arguments.steps)
    if arguments.json:
        require_new(arguments.json, force=True)  # fails now rather than at the end
    if arguments.check_call:
        return 0
    machine = emulated_machine()
    version = run_program([machine.emulator[0], "--version"]).stdout.splitlines()[0]
    facts = {"commit": commit_of_checkout(), "emulator": version, "processor": PROCESSOR}
    entries: Entries = {}
    try:
        run_steps(steps, machine, entries)
    finally:
        if arguments.json:
            with new_file(arguments.json, force=True) as part:
                part.write_text(json.dumps({**facts, "steps": entries}, indent=2) + "\n")
    return int(any(entry["status"] != "done" for entry in entries.values()))


def main(argv: Sequence[str]) -> int:
    arguments = parse(argv)
    try:
        with handled(end):
            return check(arguments)
    except Ended as ended:
        print("interrupted: what is compiled is kept for the next call", file=sys.stderr)
        return 128 + ended.number
    except (OrinError, BuildError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, OrinError) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
