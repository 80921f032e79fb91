"""Applying a plan as a whole or not at all, and reverting to the state before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from orin_llm.device.setup.change import Change, State
from orin_llm.device.setup.plan import Step
from orin_llm.device.setup.signals import Stopped
from orin_llm.device.setup.snapshot import load_snapshot, save_snapshot
from orin_llm.device.setup.system import System
from orin_llm.errors import OrinError

Report = Callable[[str], None]  # is told one line for each change, before it is made


@dataclass(frozen=True)
class Outcome:
    """Names of the changes that were made, and what waits for a reboot."""

    done: tuple[str, ...]
    waiting: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "done": list(self.done),
            "reboot_needed": bool(self.waiting),
            "waits_for_reboot": list(self.waiting),
        }


def apply(system: System, steps: Sequence[Step], report: Report) -> Outcome:
    """Make the pending changes, in order. Applied again, nothing is left to do.

    The state before each is recorded before it is touched, so that a power cut loses nothing.

    Raises:
        OrinError: a change failed. It and those before it were taken back, or the message names
            what could not be.
        Stopped: the same, because the system's `check` raised it.
    """
    snapshot = before = load_snapshot(system)
    touched: list[Step] = []
    try:
        for step in (step for step in steps if step.pending):
            system.check()
            report(f"{step.change.name}: {step.change.title}")
            snapshot = snapshot.with_state(step.change.name, step.now)
            save_snapshot(system, snapshot)
            touched.append(step)
            _write(system, step.change, step.wanted)
        system.check()
    except BaseException as error:
        system = system.unstoppable()
        failed: dict[str, str] = {}
        for step in reversed(touched):
            report(f"{step.change.name}: taken back")
            if problem := _problem_of_writing(system, step.change, step.now):
                failed[step.change.name] = problem
        kept = [step for step in touched if step.change.name in failed]
        for step in kept:
            before = before.with_state(step.change.name, step.now)
        save_snapshot(system, before)
        if not isinstance(error, (OrinError, OSError)):
            raise
        message = _failure(str(error), touched, failed)
        if isinstance(error, Stopped):
            raise Stopped(message, error.number) from error
        raise OrinError(message) from error
    done = tuple(step.change.name for step in touched)
    return Outcome(done, _waiting(system.unstoppable(), steps))


def revert(system: System, changes: Iterable[Change], report: Report) -> Outcome:
    """Restore what the snapshot holds, the last change first. One that fails does not stop others.

    Raises:
        OrinError: some could not be restored; the message names them, and they stay recorded.
        Stopped: the system's `check` raised it. What is not restored yet stays recorded.
    """
    snapshot = load_snapshot(system)
    known = {change.name: change for change in changes}
    done: list[str] = []
    steps: list[Step] = []
    problems: list[str] = []
    for name, state in reversed(snapshot.before.items()):
        report(name)
        change = known.get(name)
        try:
            system.check()
            problem = (
                _problem_of_writing(system, change, state) if change else "there is no such change"
            )
        except Stopped as stopped:
            rest = ", ".join(reversed(snapshot.before))
            message = f"{stopped}. Not restored yet, run `orin-llm setup revert` again: {rest}"
            raise Stopped(message, stopped.number) from stopped
        if problem or change is None:
            problems.append(f"{name}: {problem}")
            continue
        snapshot = snapshot.without(name)
        save_snapshot(system, snapshot)
        done.append(name)
        steps.append(Step(change, state, state))
    if problems:
        raise OrinError("not everything could be restored. " + "; ".join(problems))
    return Outcome(tuple(done), _waiting(system.unstoppable(), steps))


def _write(system: System, change: Change, state: State) -> None:
    """Write a state and see that it is there."""
    change.write(system, state)
    now = change.read(system)
    if now != state:
        different = [key for key in state if now.get(key) != state[key]]
        raise OrinError(f"{change.name} was set, but reads otherwise: {', '.join(different)}")


def _problem_of_writing(system: System, change: Change, state: State) -> str:
    try:
        _write(system, change, state)
    except Stopped:
        raise
    except KeyError as error:
        return f"its record has no {error}"
    except (OrinError, OSError) as error:
        return str(error)
    return ""


def _failure(problem: str, touched: Sequence[Step], failed: dict[str, str]) -> str:
    if failed:
        named = "; ".join(f"{name}: {why}" for name, why in failed.items())
        return f"{problem}. Taking back failed too, try `orin-llm setup revert`: {named}"
    if not touched:
        return f"{problem}. Nothing was changed"
    names = ", ".join(step.change.name for step in touched)
    return f"{problem}. All is as it was: {names} taken back"


def _waiting(system: System, steps: Iterable[Step]) -> tuple[str, ...]:
    waiting = []
    for step in steps:
        if not step.problem:
            waiting.append(step.change.waits_for_reboot(system, step.wanted))
    return tuple(filter(None, waiting))
