"""The monitor without a view: a line of JSON for each snapshot and each alert, and a command."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orin_llm import __version__
from orin_llm.host.strict_json import json_line
from orin_llm.monitor.commands import AlertCommands
from orin_llm.monitor.feed import Feed, next_due_s
from orin_llm.monitor.output import LineOutput
from orin_llm.monitor.recording import Recorder
from orin_llm.monitor.snapshot import Subject
from orin_llm.monitor.state import AlertEvent, State
from orin_llm.monitor.stop_signals import StopSignals, stop_signals
from orin_llm.monitor.thresholds import Thresholds
from orin_llm.monitor.watch import Watch

END_S = 2.0  # for what is under way when the end is asked for
_LOOK_S = 0.05  # between two looks at commands that are waited for
# Members of a reading that are no use to who reads a log: large, or there in another form.
_NOT_LOGGED = ("at_ms", "cores", "unknown")


def log_head(subject: Subject, thresholds: Thresholds, config: Path | None) -> dict[str, Any]:
    """The first line of a log: what is watched, and with which thresholds of which file."""
    return {
        "monitor": __version__,
        "host": subject.host,
        "machine": subject.to_json(),
        "thresholds": {
            name: {key: value for key, value in rule.items() if value is not None}
            for name, rule in asdict(thresholds).items()
        },
        "config": None if config is None else str(config),
    }


def log_line(state: State) -> dict[str, Any]:
    """A snapshot as it is logged."""
    reading = asdict(state.snapshot.reading)
    return {
        "at_ms": state.snapshot.at_ms,
        "temperature_c": state.snapshot.reading.hottest_c,
        **{name: value for name, value in reading.items() if name not in _NOT_LOGGED},
        "engines": [engine.to_json() for engine in state.engines],
        "alerts": [alert.to_json() for alert in state.alerts],
        "problems": dict(state.problems),
    }


class Agent:
    """Takes snapshots and logs them, until the feed is over or a signal ends it."""

    def __init__(
        self,
        feed: Feed,
        watch: Watch,
        output: LineOutput,
        *,
        head: Mapping[str, Any],
        recorder: Recorder | None,
        commands: AlertCommands | None,
        tell: Callable[[str], None],
    ) -> None:
        """`head` is the first line; `tell` is called with what goes wrong and does not end it."""
        self._feed = feed
        self._watch = watch
        self._output = output
        self._recorder = recorder
        self._commands = commands
        self._tell = tell
        self._told = ""
        output.add(json_line(head))

    def run(self) -> int | None:
        """Watch in the feed's rhythm; the signal that ended it. Missed times are not made up.

        Raises:
            OSError: the log cannot be written; BrokenPipeError: nobody reads it any more.
            OrinError: a snapshot cannot be read.
        """
        with stop_signals() as stop:
            try:
                due_s = time.monotonic()
                while stop.number is None and (state := self._next()) is not None:
                    for event in state.events:
                        if self._commands is not None:
                            self._commands.add(event)
                    self._log(state)
                    due_s = next_due_s(due_s, self._feed.interval_s, time.monotonic())
                    self._wait(stop, due_s)
                self._wait_for_reader(time.monotonic() + END_S)
            finally:
                if self._commands is not None:
                    self._commands.close(END_S)
            return stop.number

    def run_through(self) -> int | None:
        """Take one snapshot after the other, waiting for reader and commands. For recordings.

        Raises:
            OSError, OrinError: as `run`.
        """
        with stop_signals() as stop:
            try:
                while stop.number is None and (state := self._next()) is not None:
                    for event in state.events:
                        self._add_patiently(event, stop)
                    self._log(state)
                    while self._output.has_waiting and stop.number is None:
                        select.select([stop], [self._output.number], [])
                        self._output.write_on()
                if self._commands is not None:
                    self._commands.end()
                    while not self._commands.has_ended and stop.number is None:
                        select.select([stop], [], [], _LOOK_S)
            finally:
                if self._commands is not None:
                    self._commands.close(END_S)
            return stop.number

    def _add_patiently(self, event: AlertEvent, stop: StopSignals) -> None:
        if self._commands is None:
            return
        while not self._commands.has_room and stop.number is None:
            select.select([stop], [], [], _LOOK_S)
        self._commands.add(event)

    def _next(self) -> State | None:
        snapshot = self._feed.next()
        if snapshot is None:
            return None
        problems: Mapping[str, str] = self._feed.problems
        if self._recorder is not None:
            self._recorder.add(snapshot, problems)
            if self._recorder.problem != self._told:
                self._told = self._recorder.problem
                self._tell(self._told)
        return self._watch.update(snapshot, problems)

    def _log(self, state: State) -> None:
        before = self._output.left_out
        for event in state.events:
            self._output.add(json_line(event.to_json()))
        self._output.add(json_line(log_line(state)))
        if before == 0 and self._output.left_out:
            self._tell("nobody reads the log fast enough: lines are left out from now on")

    def _wait(self, stop: StopSignals, due_s: float) -> None:
        while stop.number is None and (left_s := due_s - time.monotonic()) > 0:
            writing = [self._output.number] if self._output.has_waiting else []
            select.select([stop], writing, [], left_s)
            self._output.write_on()

    def _wait_for_reader(self, end_s: float) -> None:
        while self._output.has_waiting and (left_s := end_s - time.monotonic()) > 0:
            select.select([], [self._output.number], [], left_s)
            self._output.write_on()
