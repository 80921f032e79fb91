"""The command that is run for each alert that begins or ends."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress

from orin_llm.monitor.state import AlertEvent

LIMIT_S = 30.0  # a command that runs for longer is killed
MAX_WAITING = 100  # events; what comes while so many wait is told, and not handed over
VARIABLE = "ORIN_LLM_ALERT_"


class AlertCommands:
    """Runs a command through the shell, once for each event, one after the other.

    In a thread of its own: who adds an event waits for nothing. The event is on the command's
    standard input as JSON, and in its environment. What it prints goes to stderr, and so does a
    line for each that fails.
    """

    def __init__(self, command: str, tell: Callable[[str], None], limit_s: float = LIMIT_S) -> None:
        """`tell` is called with what went wrong, from the thread."""
        self._command = command
        self._tell = tell
        self._limit_s = limit_s
        self._host = socket.gethostname()
        self._events: queue.SimpleQueue[AlertEvent | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="alert-command", daemon=True)
        self._thread.start()

    @property
    def has_room(self) -> bool:
        """Whether `add` takes another event now."""
        return self._events.qsize() < MAX_WAITING

    @property
    def has_ended(self) -> bool:
        """Whether all is done since `end`."""
        return not self._thread.is_alive()

    def add(self, event: AlertEvent) -> None:
        """Have the command run for it, after those for the events before it."""
        if self.has_room:
            self._events.put(event)
        else:
            self._tell(f"{MAX_WAITING} alert commands wait already: none for {_title(event)}")

    def end(self) -> None:
        """Say that no more events come."""
        self._events.put(None)

    def close(self, grace_s: float) -> None:
        """End: commands still get this much time, then the running one is killed, others left."""
        self.end()
        self._thread.join(grace_s)
        with self._lock:
            self._is_closing = True
            if self._running is not None:
                _kill(self._running)
        self._thread.join(grace_s)

    def _run(self) -> None:
        while (event := self._events.get()) is not None:
            process = self._start(event)
            if process is not None:
                self._follow(process, event)
            elif self._is_closing:
                return self._tell_left()

    def _tell_left(self) -> None:
        left = 1
        while not self._events.empty():
            left += self._events.get() is not None
        self._tell(f"the monitor ends: the alert command was not run for {left} events")

    def _start(self, event: AlertEvent) -> subprocess.Popen[bytes] | None:
        """The command's process; None when it is not to be, or cannot be, started."""
        with self._lock:
            if self._is_closing:
                return None
            try:
                self._running = subprocess.Popen(
                    self._command,
                    shell=True,
                    stdin=subprocess.PIPE,
                    stdout=2,  # our stdout is the log
                    env={**os.environ, **self._variables(event)},
                    start_new_session=True,  # to be killed with all it started; Ctrl-C is for us
                )
            except OSError as error:
                self._tell(f"the alert command for {_title(event)} cannot be run: {error}")
                return None
            return self._running

    def _follow(self, process: subprocess.Popen[bytes], event: AlertEvent) -> None:
        reason = ""
        try:
            process.communicate(json.dumps(event.to_json()).encode() + b"\n", self._limit_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.wait()
            reason = f"was killed after {self._limit_s:g} s"
        with self._lock:
            self._running = None
        if process.returncode and not reason:
            ended = f"ended with exit status {process.returncode}"
            reason = "was killed, for the monitor ends" if self._is_closing else ended
        if reason:
            self._tell(f"the alert command for {_title(event)} {reason}: {self._command}")

    def _variables(self, event: AlertEvent) -> dict[str, str]:
        alert = event.alert
        values = {
            "EVENT": event.kind,
            "RULE": alert.rule,
            "SUBJECT": alert.subject,
            "VALUE": f"{alert.value:g}",
            "THRESHOLD": f"{alert.threshold:g}",
            "TEXT": alert.text,
            "HOST": self._host,
        }
        return {VARIABLE + name: _storable(value) for name, value in values.items()}


def _storable(text: str) -> str:
    """The text as a variable can hold it; a model's name may be anything."""
    return text.replace("\0", "?").encode("utf-8", "replace").decode()


def _title(event: AlertEvent) -> str:
    return f"{event.alert.rule} {event.kind}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With all that it started, unless it has ended: its number may be another's by then."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
