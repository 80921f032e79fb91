"""Takes snapshots from a feed in a thread of its own, so that no slow sensor holds up the keys."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orin_llm.cli.live.story import Story
from orin_llm.monitor.feed import Feed, next_due_s
from orin_llm.monitor.recording import Recorder
from orin_llm.monitor.snapshot import Snapshot
from orin_llm.monitor.watch import Watch

_LONGEST_GAP = 10  # intervals: a longer time without snapshots is not waited for in a replay
_BEHIND_S = 1.0  # of a replay that is slow to read, at most: so much is made up
_STOP_S = 2.0  # for the snapshot that is being taken when the view ends


class Pump:
    """Reads the feed until it is over or `stop` is called.

    Attributes:
        error: what ended it; None if nothing did.
        is_over: whether the feed is.
    """

    def __init__(
        self,
        feed: Feed,
        watch: Watch,
        recorder: Recorder | None,
        speed: float | None,
        notify: Callable[[], None],
    ) -> None:
        """`speed` is that of a replay, None for the machine now.

        `notify` is called in the pump's thread after each state and at the end.
        """
        self.error: Exception | None = None
        self.is_over = False
        self._feed, self._watch, self._recorder = feed, watch, recorder
        self._speed, self._notify = speed, notify
        self._story = Story(feed.interval_s)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._running = threading.Event()
        self._running.set()
        # A daemon: a sensor that never answers must not keep the process.
        self._thread = threading.Thread(target=self._run, name="orin-llm-monitor", daemon=True)

    @contextmanager
    def story(self) -> Iterator[Story]:
        """What has been seen, which stays as it is meanwhile."""
        with self._lock:
            yield self._story

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def hold(self, is_held: bool) -> None:
        """Take no more snapshots, or go on."""
        if is_held:
            self._running.clear()
        else:
            self._running.set()

    def stop(self) -> None:
        """End; a snapshot that is being taken is waited for, but not for long."""
        self._stopped.set()
        self._running.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        try:
            self._read_all()
        except Exception as error:
            self.error = error
        self._notify()

    def _read_all(self) -> None:
        due_s = time.monotonic()
        before: Snapshot | None = None
        while not self._stopped.is_set():
            snapshot = self._feed.next()
            if snapshot is None:
                self.is_over = True
                return
            if self._speed is not None and before is not None:
                wait_s = gap_s(before, snapshot, self._feed.interval_s, self._speed)
                due_s = max(due_s + wait_s, time.monotonic() - _BEHIND_S)
                self._wait_until(due_s)
            before = snapshot
            self._take(snapshot)
            if self._speed is None:
                due_s = next_due_s(due_s, self._feed.interval_s, time.monotonic())
                self._wait_until(due_s)

    def _take(self, snapshot: Snapshot) -> None:
        problems = dict(self._feed.problems)
        if self._recorder:
            self._recorder.add(snapshot, problems)
            if self._recorder.problem:
                problems["record"] = self._recorder.problem
        state = self._watch.update(snapshot, problems)
        with self._lock:
            self._story.add(state)
        self._notify()

    def _wait_until(self, due_s: float) -> None:
        self._stopped.wait(max(0.0, due_s - time.monotonic()))
        self._running.wait()


def gap_s(before: Snapshot, snapshot: Snapshot, interval_s: float, speed: float) -> float:
    """How long a replay waits between the two; not for a time in which nothing was recorded."""
    recorded_s = (snapshot.at_ms - before.at_ms) / 1e3
    return min(max(recorded_s, 0.0), _LONGEST_GAP * interval_s) / speed
