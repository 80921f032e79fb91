"""Runs steps one after another; each leaves its entry in the record, whatever happens to it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from gpu_check.budget import fit
from gpu_check.machine import device_facts
from gpu_check.mps import MULTIPROCESSORS, PERCENTAGE, find_percentage, mps_server
from gpu_check.record import Record
from gpu_check.steps import Context, NotPossible, Step, StepFailed

Say = Callable[[str], None]


class Run:
    """One call of a check, of `program`."""

    def __init__(
        self,
        record: Record,
        context: Context,
        total_s: float,
        say: Say,
        program: str = "scripts/gpu_check.sh",
    ) -> None:
        self._record, self._context, self._say, self._program = record, context, say, program
        self._end = time.monotonic() + total_s
        self._sessions = ExitStack()
        self._confined: dict[str, str] = {}
        self._no_proxy = ""

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._sessions.close()

    def steps(self, pending: Sequence[Step]) -> None:
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

    def _one(self, step: Step, names: set[str]) -> None:
        for need in step.needs:
            if not self._record.is_done(need):
                end = self._record.steps.get(need, {}).get("status", "not done")
                hint = "" if need in names else f": {self._program} --only {need}"
                self._note(step, "skipped", error=f"needs {need}, which is {end}{hint}")
                return
        context = replace(self._context, name=step.name, confined=step.confined, commands=[])
        begin = time.monotonic()
        limit_s = min(step.limit_s, self._end - begin)
        context.deadline = begin + limit_s
        result: dict[str, Any] = {}
        error, status = "", "interrupted"
        try:
            most = f"{limit_s / 60:.0f} min" if limit_s >= 60 else f"{limit_s:.0f} s"
            self._say(f"{step.name}: {step.does} (at most {most})")
            if step.confined:
                context.environ = self._proxy(context)
            result, status = step.run(context), "done"
        except StepFailed as failure:
            error, status, result = str(failure), "failed", failure.found
            if isinstance(failure, NotPossible) or (step.confined and self._no_proxy):
                status = "skipped"
        except Exception as failure:  # whatever is wrong in one step, the others go on
            error, status = f"{type(failure).__name__}: {failure}", "failed"
        finally:
            seconds = time.monotonic() - begin
            commands = [shlex.join(command) for command in context.commands]
            facts = {"seconds": seconds, "limit_s": limit_s, "commands": commands}
            self._note(step, status, result=result, error=error, **facts)

    def _note(
        self,
        step: Step,
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

    def _proxy(self, context: Context) -> dict[str, str]:
        """Variables that confine a program to 16 multiprocessors. Raises StepFailed."""
        if self._no_proxy:
            raise StepFailed(self._no_proxy)
        if not self._confined:
            try:
                self._confined = self._start_proxy(context)
            except StepFailed as failure:
                self._no_proxy = str(failure)
                raise
        return self._confined

    def _start_proxy(self, context: Context) -> dict[str, str]:
        whole = device_facts(context)["multiprocessors"]
        variables = self._sessions.enter_context(mps_server())

        def left_at(percent: int) -> int:
            environ = {**variables, PERCENTAGE: str(percent)}
            inside = replace(context, environ=environ)
            return int(device_facts(inside)["multiprocessors"])

        percent, left = find_percentage(whole, left_at)
        self._record.data["proxy"] = {
            "percentage": percent,
            "multiprocessors": left,
            "wanted": MULTIPROCESSORS,
            "of": whole,
        }
        self._say(f"proxy of the board: {percent} % leaves {left} of {whole} multiprocessors")
        return {**variables, PERCENTAGE: str(percent)}
