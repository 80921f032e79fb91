"""What the published Trace Event Format asks of a file, and what Perfetto shows of one.

Google's "Trace Event Format" document: the JSON object form, and the phases X, i, C, M, s and f.
Perfetto's "Visualizing external trace formats": slices of a thread have to nest.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

Event = dict[str, Any]
_COMMON = {"name", "ph", "pid"}
_KEYS = {
    "X": {"tid", "ts", "dur"},
    "i": {"tid", "ts", "s"},
    "C": {"ts", "args"},
    "M": {"args"},
    "s": {"tid", "ts", "id", "cat"},
    "f": {"tid", "ts", "id", "cat"},
}
_METADATA = {
    "process_name": "name",
    "thread_name": "name",
    "process_sort_index": "sort_index",
    "thread_sort_index": "sort_index",
}


def read_trace_file(path: Path) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    found: dict[str, Any] = json.loads(path.read_text("utf-8"), parse_constant=refuse)
    assert set(found) <= {"traceEvents", "displayTimeUnit", "otherData"}
    assert found["displayTimeUnit"] in ("ms", "ns")
    assert isinstance(found["otherData"], dict)
    return found


def check_events(events: list[Event]) -> None:
    """Fails where an event is not as the format says."""
    for event in events:
        phase = event["ph"]
        assert phase in _KEYS and _COMMON | _KEYS[phase] <= set(event), event
        assert isinstance(event["name"], str) and event["name"], event
        for key in ("pid", "tid", "id"):
            assert isinstance(event.get(key, 0), int), event
        for key in ("ts", "dur"):
            value = event.get(key, 0.0)
            assert math.isfinite(value) and value >= 0, event
            assert math.isclose(value * 1000, round(value * 1000), abs_tol=1e-3), event
        if phase == "i":
            assert event["s"] in ("t", "p", "g")
        if phase == "C":
            assert event["args"]
            assert all(type(value) in (int, float) for value in event["args"].values()), event
        if phase == "M":
            assert list(event["args"]) == [_METADATA[event["name"]]], event
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    used = {(e["pid"], e["tid"]) for e in events if e["ph"] in "Xisf"}
    assert used <= named
    assert {e["pid"] for e in events} == {e["pid"] for e in events if e["name"] == "process_name"}
    for lane in used:
        _check_nesting([e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == lane])
    assert len({tid for _, tid in used}) == len(used), "two lanes of one number"
    _check_flows(events)


def _span(event: Event) -> tuple[int, int]:
    """In nanoseconds, as readers keep them."""
    start = round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


def _check_nesting(slices: list[Event]) -> None:
    """In nanoseconds, and for readers who add up the numbers as they are."""
    for spans in (
        [_span(e) for e in slices],
        [(e["ts"], e["ts"] + e["dur"]) for e in slices],
    ):
        open_until: list[float] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1], "slices of one lane overlap"
            open_until.append(end)


def _check_flows(events: list[Event]) -> None:
    """Each begins and ends once, in a slice of its lane."""
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert len(starts) == sum(e["ph"] == "s" for e in events)
    assert set(starts) == set(ends)
    for number, start in starts.items():
        end = ends[number]
        assert end["bp"] == "e"
        assert start["ts"] <= end["ts"]
        assert (start["cat"], start["name"]) == (end["cat"], end["name"])
        for bound in (start, end):
            at = round(bound["ts"] * 1000)
            assert any(
                first <= at <= last
                for first, last in (
                    _span(e)
                    for e in events
                    if e["ph"] == "X" and (e["pid"], e["tid"]) == (bound["pid"], bound["tid"])
                )
            ), bound


def slices(events: list[Event], lane: str) -> list[Event]:
    """Of the lane with this name."""
    places = [
        (e["pid"], e["tid"])
        for e in events
        if e["name"] == "thread_name" and e["args"]["name"] == lane
    ]
    return [e for e in events if e["ph"] in "Xi" and (e["pid"], e.get("tid")) in places]
