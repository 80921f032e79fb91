"""Runs steps one after another; each leaves its entry in the record, whatever happens to it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Generic

from checking.budget import fit
from checking.record import Record
from checking.steps import C, NotPossible, Step, StepFailed

Say = Callable[[str], None]


class Run(Generic[C]):
    """One call of `program`, a check."""

    def __init__(self, record: Record, context: C, total_s: float, say: Say, program: str) -> None:
        self._record, self._context, self._say, self._program = record, context, say, program
        self._end = time.monotonic() + total_s

    def steps(self, pending: Sequence[Step[C]]) -> None:
        """Run them in order; what the time does not suffice for is dropped, and says so.

        Raises KeyboardInterrupt, after the entry of the step that it ended was written.
        """
        names = {step.name for step in pending}
        while pending:
            pending, dropped = fit(pending, self._end - time.monotonic())
            for step in dropped:
                self._note(step, "dropped", error="there was not enough time (--minutes)")
            if pending:
                step, *pending = pending
                self._one(step, names)

    def _one(self, step: Step[C], names: set[str]) -> None:
        for need in step.needs:
            if not self._record.is_done(need):
                end = self._record.steps.get(need, {}).get("status", "not done")
                hint = "" if need in names else f": {self._program} --only {need}"
                self._note(step, "skipped", error=f"needs {need}, which is {end}{hint}")
                return
        context = replace(self._context, name=step.name, commands=[])
        begin = time.monotonic()
        limit_s = min(step.limit_s, self._end - begin)
        context.deadline = begin + limit_s
        result: dict[str, Any] = {}
        error, status = "", "interrupted"
        try:
            most = f"{limit_s / 60:.0f} min" if limit_s >= 60 else f"{limit_s:.0f} s"
            self._say(f"{step.name}: {step.does} (at most {most})")
            result, status = step.run(context), "done"
        except StepFailed as failure:
            error, result = str(failure), failure.found
            status = "skipped" if isinstance(failure, NotPossible) else "failed"
        except Exception as failure:  # whatever is wrong in one step, the others go on
            error, status = f"{type(failure).__name__}: {failure}", "failed"
        finally:
            seconds = time.monotonic() - begin
            commands = [shlex.join(command) for command in context.commands]
            facts = {"seconds": seconds, "limit_s": limit_s, "commands": commands}
            self._note(step, status, result=result, error=error, **facts)

    def _note(
        self,
        step: Step[C],
        status: str,
        *,
        result: dict[str, Any] | None = None,
        error: str = "",
        **facts: Any,
    ) -> None:
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        entry = {"status": status, "date": date, **facts, "result": result or {}}
        if error:
            entry["error"] = error
        self._record.put(step.name, entry)
        seconds = f" ({facts['seconds']:.0f} s)" if "seconds" in facts else ""
        self._say(f"{step.name}: {status}{seconds}{': ' + error if error else ''}")
