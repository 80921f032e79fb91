"""The engines that run now, and what each said last."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from orin_llm.errors import OrinError
from orin_llm.monitor.snapshot import TITLE, EngineSample
from orin_llm.stats import RunningEngine, attach
from orin_llm.stats.folder import connect, own_sockets
from orin_llm.stats.protocol import DEFAULT_INTERVAL_MS

SEARCH_S = 2.0  # between two looks for new engines
MAX_ENGINES = 64
MIN_INTERVAL_MS = 50  # a line costs an engine's process a fraction of a millisecond
_SILENT_INTERVALS, _SILENT_S = 3, 2.0  # an engine on a busy machine may be late
_LOST_S = 60.0  # for which it is told that an engine was killed
_CLOSING_S = 0.1  # between the end of an engine's connections and that of its socket, at most
_CALLS, _CALL_S = 5, 1.0  # to find out whether it is there; for it to take one


class EngineWatch:
    """Finds engines and listens to them, in threads of its own: nobody waits for an engine.

    An engine that has ended is gone at once. One that says nothing stays as it was, and is told
    in `problems`; so is, for a minute, one that was killed.
    """

    def __init__(self, interval_s: float, pid: int | None = None) -> None:
        """Begin to look.

        Args:
            interval_s: how often `samples` will be asked for.
            pid: watch only the engines of this process.

        Raises:
            OrinError: that process has no engine.
        """
        self._interval_ms = round(min(DEFAULT_INTERVAL_MS, max(MIN_INTERVAL_MS, interval_s * 500)))
        self._pid = pid
        if pid is not None and not self._paths():
            raise OrinError(
                f"process {pid} has no engine that publishes statistics: leave out --engine to see "
                "all of this user"
            )
        self._followers: dict[Path, _Follower] = {}
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._has_searched = False
        threading.Thread(target=self._search, name="engine-watch", daemon=True).start()

    def samples(self) -> tuple[EngineSample, ...]:
        """What each engine said last, by name."""
        with self._changed:
            samples = [follower.sample() for follower in self._followers.values()]
        return tuple(sorted((s for s in samples if s is not None), key=lambda s: s.name))

    @property
    def problems(self) -> dict[str, str]:
        """Which engines say nothing, and why."""
        silent_s = _SILENT_S + _SILENT_INTERVALS * self._interval_ms / 1e3
        with self._changed:
            followers = list(self._followers.values())
        return {f.title: problem for f in followers if (problem := f.problem(silent_s))}

    def settle(self, timeout_s: float) -> None:
        """Wait until every engine that runs has said something, but not for longer than this."""

        def is_settled() -> bool:
            followers = self._followers.values()
            return self._has_searched and all(follower.has_answered for follower in followers)

        with self._changed:
            self._changed.wait_for(is_settled, timeout_s)

    def close(self) -> None:
        """Stop listening. Threads end by themselves, with the next line of their engine."""
        self._closing.set()

    def _search(self) -> None:
        while not self._closing.is_set():
            paths = self._paths()[:MAX_ENGINES]
            with self._changed:
                followers = {
                    path: follower
                    for path, follower in self._followers.items()
                    if path in paths or not follower.has_ended or follower.is_lost
                }
                for path in paths:
                    before = followers.get(path)
                    if before is None or before.has_ended:
                        followers[path] = _Follower(path, self._changed, before)
                started = [f for path, f in followers.items() if self._followers.get(path) is not f]
                self._followers = followers
                self._has_searched = True
                self._changed.notify_all()
            for follower in started:
                follower.start(self._interval_ms, self._closing)
            self._closing.wait(SEARCH_S)

    def _paths(self) -> list[Path]:
        found = own_sockets()
        if self._pid is None:
            return found
        return [path for path in found if path.name.startswith(f"{self._pid}-")]


@dataclass(frozen=True)
class _Lost:
    """An engine that was killed: when that was noticed, by time.monotonic(), and its model."""

    at_s: float
    model: str

    @property
    def problem(self) -> str:
        return f"{self.model} was killed or has crashed: its socket is left, and nobody answers"


class _Follower:
    """Listens at one socket until nothing comes from there any more."""

    def __init__(self, path: Path, changed: threading.Condition, before: _Follower | None) -> None:
        """`before`: at the same socket; why it has ended is true until this one knows better."""
        self.title = f"{TITLE}{path.stem}"
        self.reason: str = before.reason if before else ""
        self._lost: _Lost | None = before._lost if before else None
        self.has_ended = False
        self._path = path
        self._changed = changed
        self._engine: RunningEngine | None = None
        self._line: Mapping[str, Any] | None = None
        self._heard_s = 0.0

    @property
    def has_answered(self) -> bool:
        """Whether it has a line, or will not have one."""
        return self._line is not None or self.has_ended

    @property
    def is_lost(self) -> bool:
        """Whether its engine was killed a short while ago, and no other is at its socket."""
        return bool(self._lost_problem)

    @property
    def _lost_problem(self) -> str:
        lost = self._lost
        return lost.problem if lost and time.monotonic() - lost.at_s <= _LOST_S else ""

    def start(self, interval_ms: int, closing: threading.Event) -> None:
        """Listen in a thread of its own until `closing`."""
        threading.Thread(
            target=self._run, args=(interval_ms, closing), name=self.title, daemon=True
        ).start()

    def sample(self) -> EngineSample | None:
        """The newest line; None without one, and when the engine has ended."""
        if self._engine is None or self._line is None or self.has_ended:
            return None
        return EngineSample(self._path.stem, self._engine.pid, self._engine.model, self._line)

    def problem(self, silent_s: float) -> str:
        """Why it says nothing, or ""; a line is expected within `silent_s`."""
        if self._line is None or self.has_ended:
            return self.reason or self._lost_problem
        silence_s = time.monotonic() - self._heard_s
        if silence_s <= silent_s:
            return ""
        return f"has said nothing for {silence_s:.0f} s: its process hangs or is stopped"

    def _run(self, interval_ms: int, closing: threading.Event) -> None:
        reason = ""
        try:
            with attach(self._path, interval_ms=interval_ms) as attached:
                self._engine = attached.engine
                for line in attached:
                    with self._changed:
                        self._line, self._heard_s, self._lost = line, time.monotonic(), None
                        self._changed.notify_all()
                    if closing.is_set():
                        return
            if _is_left_behind(self._path):
                self._lost = _Lost(time.monotonic(), PurePath(attached.engine.model).name)
        except OrinError as error:
            # A socket that a killed process left, or one that was removed just now, is no news.
            is_gone = isinstance(error.__cause__, (ConnectionError, FileNotFoundError))
            reason = "" if is_gone else str(error)
        except OSError as error:
            reason = error.strerror or str(error)
        finally:
            with self._changed:
                self.reason, self.has_ended = reason, True
                self._changed.notify_all()


def _is_left_behind(path: Path) -> bool:
    """Whether the socket is there and nobody listens: an engine that is closed removes it."""
    for _ in range(_CALLS):  # a process that is killed closes its files one after the other
        time.sleep(_CLOSING_S)
        try:
            connect(path, _CALL_S).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
