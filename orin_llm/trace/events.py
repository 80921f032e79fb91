"""Events in the Trace Event Format, which Perfetto and chrome://tracing read.

The format is Google's "Trace Event Format" document; Perfetto's documentation ("Visualizing
external trace formats") says what of it is shown: slices of one lane lie within one another or
apart, never across.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

Event = dict[str, Any]
_DIGITS = 3  # of microseconds: nanoseconds, which is what readers keep
_NANOSECOND = 0.001


@dataclass(frozen=True)
class Group:
    """Lanes and counters that are shown together (a process, to the format)."""

    pid: int
    name: str

    def describe(self) -> Iterator[Event]:
        """Its name, and its place: by number."""
        yield _metadata("process_name", {"pid": self.pid}, {"name": self.name})
        yield _metadata("process_sort_index", {"pid": self.pid}, {"sort_index": self.pid})


@dataclass(frozen=True)
class Lane:
    """One line of a group (a thread, to the format); those of a group are in order of number."""

    group: Group
    tid: int
    name: str

    def describe(self) -> Iterator[Event]:
        """Its name and its place."""
        yield _metadata("thread_name", self.place, {"name": self.name})
        yield _metadata("thread_sort_index", self.place, {"sort_index": self.tid})

    @property
    def place(self) -> Event:
        """Of a number that no other group's lane has, nor a group: that would be a main thread."""
        return {"pid": self.group.pid, "tid": 1000 * self.group.pid + self.tid}


@dataclass(frozen=True)
class Clock:
    """Milliseconds of the clock of `time.monotonic()` to microseconds of the trace."""

    zero_ms: float

    def us(self, at_ms: float) -> float:
        return round((at_ms - self.zero_ms) * 1000, _DIGITS)

    def slice(
        self,
        lane: Lane,
        name: str,
        start_ms: float,
        end_ms: float,
        args: Mapping[str, Any],
        *,
        depth: int = 0,
    ) -> Event:
        """Something that lasted; `depth`: how many slices of its lane it lies in.

        It ends a nanosecond early, and one more for each of these: readers that add the duration
        up in floating point find it nested all the same, and apart from what begins at its end.
        """
        start, end = self.us(start_ms), self.us(end_ms) - (1 + depth) * _NANOSECOND
        duration = round(max(end - start, 0.0), _DIGITS)
        return {
            "name": name, "ph": "X", **lane.place, "ts": start, "dur": duration,
            "args": known(args),
        }  # fmt: skip

    def instant(self, lane: Lane, name: str, at_ms: float, args: Mapping[str, Any]) -> Event:
        """Something that happened at one moment, shown in its lane."""
        return {
            "name": name, "ph": "i", "s": "t", **lane.place, "ts": self.us(at_ms),
            "args": known(args),
        }  # fmt: skip

    def counter(
        self, group: Group, name: str, at_ms: float, values: Mapping[str, float | None]
    ) -> Iterator[Event]:
        """Values from this moment on, each a line of its own; nothing where none is known."""
        found = known(values)
        if found:
            yield {
                "name": name, "ph": "C", "pid": group.pid, "ts": self.us(at_ms), "args": found
            }  # fmt: skip

    def flow(
        self, number: int, name: str, start: tuple[Lane, float], end: tuple[Lane, float]
    ) -> Iterator[Event]:
        """An arrow between two slices: those that are in these lanes at these times."""
        for phase, (lane, at_ms) in (("s", start), ("f", end)):
            binding = {"bp": "e"} if phase == "f" else {}  # to the slice around, not the next one
            yield {
                "name": name, "cat": "flow", "ph": phase, "id": number, **binding, **lane.place,
                "ts": self.us(at_ms),
            }  # fmt: skip


def known(values: Mapping[str, Any]) -> dict[str, Any]:
    """What is not missing."""
    return {name: value for name, value in values.items() if value is not None}


def write_trace(file: TextIO, events: Iterable[Event], about: Mapping[str, Any]) -> int:
    """Write a trace, an event a line; returns how many. `about`: what else is to be known of it.

    Raises:
        ValueError: a number is not finite.
    """
    count = 0
    file.write('{"displayTimeUnit": "ms",\n"traceEvents": [')
    for count, event in enumerate(events, start=1):
        file.write("\n" if count == 1 else ",\n")
        file.write(json.dumps(event, allow_nan=False))
    file.write(f'\n],\n"otherData": {json.dumps(about, allow_nan=False)}}}\n')
    return count


def _metadata(name: str, place: Event, args: Event) -> Event:
    return {"name": name, "ph": "M", **place, "args": args}
