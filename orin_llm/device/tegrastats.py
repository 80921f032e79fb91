"""Readings from a running tegrastats, which is started again when it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress

from orin_llm.device.modules import Module
from orin_llm.device.reading import Reading
from orin_llm.device.source import SourceUnavailable
from orin_llm.device.tegrastats_line import MAX_LINE_CHARS, parse_tegrastats

MIN_INTERVAL_MS = 100  # each line costs the board some milliseconds of a core
_STALE_INTERVALS = 3
_STALE_MS = 1000  # on top: a busy machine may be late
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0
_END_TIMEOUT_S = 2


class Tegrastats:
    """The source `tegrastats`. Without root its lines tell nothing of the memory's load."""

    name = "tegrastats"

    def __init__(self, interval_ms: float, module: Module | None = None) -> None:
        """Start it.

        Raises:
            SourceUnavailable: there is no program of that name, or it cannot be started.
        """
        program = shutil.which("tegrastats")
        if program is None:
            raise SourceUnavailable("there is no tegrastats on PATH")
        self._interval_ms = max(MIN_INTERVAL_MS, round(interval_ms))
        self._command = [program, "--interval", str(self._interval_ms)]
        self._module = module
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._line: tuple[float, bytes] | None = None
        self._problem = "tegrastats has printed nothing yet"
        try:
            self._process = self._start()
        except OSError as error:
            raise SourceUnavailable(f"tegrastats cannot be started ({error.strerror})") from None
        self._thread = threading.Thread(target=self._follow, name="tegrastats", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str:
        """Why nothing is read now, or ""."""
        with self._lock:
            return self._problem

    def read(self) -> Reading:
        """The newest line; nothing is in the reading once that line is too old to be of now."""
        with self._lock:
            line = self._line
        now_ms = time.monotonic() * 1000
        if line is None or now_ms - line[0] > _STALE_INTERVALS * self._interval_ms + _STALE_MS:
            self._explain("tegrastats prints no more lines")
            return Reading(now_ms)
        reading = parse_tegrastats(line[1], line[0], self._module)
        if not _has_values(reading):
            self._explain("what tegrastats prints is not known here")
            return Reading(now_ms, unknown=reading.unknown)
        return reading

    def _explain(self, problem: str) -> None:
        """For want of a better reason."""
        with self._lock:
            self._problem = self._problem or problem

    def close(self) -> None:
        """End the program."""
        self._closing.set()
        with self._lock:
            process = self._process
        _end(process)
        # What a wrapper has started may hold the pipe open, out of reach: nobody waits for that.
        self._thread.join(_END_TIMEOUT_S)

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us: the last readings are still to be taken
        )

    def _follow(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._closing.is_set():
            if self._take_lines(self._process):
                pause_s = _FIRST_PAUSE_S
            _end(self._process)
            said = f"tegrastats ended with exit status {self._process.returncode}"
            with self._lock:
                self._problem = f"{said}; it is started again"
            while not self._closing.wait(pause_s):
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                if self._start_again():
                    break

    def _start_again(self) -> bool:
        with self._lock:
            if self._closing.is_set():
                return True
            try:
                self._process = self._start()
            except OSError as error:
                self._problem = f"tegrastats cannot be started ({error.strerror})"
                return False
        return True

    def _take_lines(self, process: subprocess.Popen[bytes]) -> int:
        """How many whole lines came before it ended.

        Not whole is what a killed program was cut off in, maybe in the middle of a number, and a
        line that is too long to be one.
        """
        assert process.stdout is not None
        count, is_start = 0, True
        while not self._closing.is_set() and (part := process.stdout.readline(MAX_LINE_CHARS)):
            is_whole = is_start and part.endswith(b"\n")
            is_start = part.endswith(b"\n")
            if is_whole:
                count += 1
                with self._lock:
                    self._line, self._problem = (time.monotonic() * 1000, part), ""
        return count


def _has_values(reading: Reading) -> bool:
    return any((reading.cores, reading.rails_w, reading.temperatures_c)) or any(
        value is not None
        for value in (reading.gpu_percent, reading.emc_percent, reading.ram_used_bytes)
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started, since those would hold the pipe open."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return  # its number may be another's by now
        with suppress(ProcessLookupError, PermissionError):  # gone, or another user's
            os.killpg(process.pid, signal_number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_TIMEOUT_S)
