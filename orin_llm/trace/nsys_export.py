"""Reads what Nsight Systems exports to SQLite: work of the GPU, and in which phase it was launched.

Tables and columns are those of NVIDIA's "SQLite Export Schema Reference". A table is only there
where something of its kind was recorded.
"""

from __future__ import annotations

import sqlite3
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from orin_llm.errors import UsageError

PHASES = ("prefill", "decode")
OTHER = "other"
_PUSH_POP = 59  # NVTX_EVENTS.eventType
# In serialized ids of processes and threads the lowest bits are the thread.
_OF_THREAD = 0x1000000
_COPY_KINDS = {
    0: "unknown", 1: "host to device", 2: "device to host", 3: "host to array",
    4: "array to host", 5: "array to array", 6: "array to device", 7: "device to array",
    8: "device to device", 9: "host to host", 10: "peer to peer", 11: "managed, host to device",
    12: "managed, device to host", 13: "managed, device to device",
}  # fmt: skip
_NEEDED = {
    "StringIds": ("id", "value"),
    "NVTX_EVENTS": ("start", "end", "eventType", "text", "globalTid"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "globalTid", "correlationId"),
    "CUPTI_ACTIVITY_KIND_KERNEL": ("start", "end", "correlationId", "globalPid", "demangledName"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start", "end", "correlationId", "globalPid", "bytes", "copyKind",
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("start", "end", "correlationId", "globalPid", "bytes"),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (
        "start", "end", "correlationId", "globalPid", "graphId",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work of the GPU; times in nanoseconds of the export.

    Attributes:
        kind: kernel, graph (a CUDA graph as a whole), memcpy or memset.
        name: of the kernel, or which way was copied.
        phase: prefill, decode or other.
        copied_bytes: 0 for a kernel or graph.
    """

    start_ns: int
    end_ns: int
    kind: str
    name: str
    phase: str
    copied_bytes: int = 0


@dataclass(frozen=True)
class Export:
    """All work in order of its start.

    Attributes:
        steps: ranges by phase.
        by_launch: the phase is that of the call that launched the work; else, for the export has
            no calls, that of the time at which it began.
    """

    work: tuple[Work, ...]
    steps: dict[str, int]
    by_launch: bool


def read_export(path: Path) -> Export:
    """Read an export.

    Raises:
        UsageError: it is missing, is no such export, or holds no work of a GPU.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file: expected what `nsys export --type=sqlite` writes")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            return _read(database, path)
    except sqlite3.Error as error:
        raise UsageError(
            f"{path}: not an export of Nsight Systems ({error}): expected what "
            "`nsys export --type=sqlite REPORT.nsys-rep` writes"
        ) from None


def _read(database: sqlite3.Connection, path: Path) -> Export:
    columns = _columns(database, path)
    ranges = _Ranges(database, columns)
    has_calls = "CUPTI_ACTIVITY_KIND_RUNTIME" in columns
    work: list[Work] = []
    for table, kind, name, size in (
        ("KERNEL", "kernel", "(SELECT value FROM StringIds WHERE id = w.demangledName)", "0"),
        ("GRAPH_TRACE", "graph", "'CUDA graph ' || w.graphId", "0"),
        ("MEMCPY", "memcpy", "w.copyKind", "w.bytes"),
        ("MEMSET", "memset", "'set'", "w.bytes"),
    ):
        full = f"CUPTI_ACTIVITY_KIND_{table}"
        if full not in columns:
            continue
        for start, end, title, copied, thread, called in _rows(
            database, full, name, size, has_calls
        ):
            if not _is_sound(start, end, copied, called):
                raise UsageError(
                    f"{path}: {full} has work from {start!r} to {end!r} ns, of {copied!r} bytes, "
                    f"called at {called!r}: expected whole numbers, and no end before its beginning"
                )
            phase = ranges.phase(thread, called if has_calls else start)
            work.append(Work(start, end, kind, _title(kind, title), phase, copied))
    if not work:
        raise UsageError(
            f"{path}: no work of a GPU is in this export: was it made of a run on the GPU, within "
            "the capture range (orin-llm trace --nsys print)?"
        )
    work.sort(key=lambda one: (one.start_ns, one.end_ns))
    return Export(tuple(work), ranges.counts, has_calls)


def _columns(database: sqlite3.Connection, path: Path) -> dict[str, set[str]]:
    """The columns of the tables that are there; UsageError where one lacks what we need."""
    found: dict[str, set[str]] = {}
    for table, needed in _NEEDED.items():
        names = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
        if missing := [name for name in needed if names and name not in names]:
            raise UsageError(
                f"{path}: its table {table} has no column {', '.join(missing)}: expected an export "
                "of Nsight Systems 2021.5 or newer"
            )
        if names:
            found[table] = names
    if "StringIds" not in found:
        raise UsageError(f"{path}: no table StringIds: not an export of Nsight Systems")
    return found


def _rows(
    database: sqlite3.Connection, table: str, name: str, size: str, has_calls: bool
) -> Iterator[tuple[int, int, object, int, int | None, int | None]]:
    """start, end, name, bytes, and the thread and the time of the call that launched it."""
    if not has_calls:
        yield from database.execute(
            f"SELECT w.start, w.end, {name}, {size}, NULL, NULL FROM {table} AS w"
        )
        return
    yield from database.execute(
        f"SELECT w.start, w.end, {name}, {size}, c.globalTid, c.start FROM {table} AS w "
        "LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS c ON c.correlationId = w.correlationId "
        f"AND c.globalTid / {_OF_THREAD} = w.globalPid / {_OF_THREAD} GROUP BY w.rowid"
    )


def _is_sound(start: object, end: object, copied: object, called: object) -> bool:
    """Columns of SQLite hold values of any type, whatever the table says."""
    return (
        isinstance(start, int)
        and isinstance(end, int)
        and isinstance(copied, int)
        and isinstance(called, int | None)
        and start <= end
    )


def _title(kind: str, name: object) -> str:
    if kind == "memcpy":
        return _COPY_KINDS.get(name, f"kind {name}") if isinstance(name, int) else f"kind {name}"
    return "without a name" if name is None else sys.intern(str(name))  # there are few, each often


class _Ranges:
    """The engine's ranges: one for each step that it started, of the thread that did."""

    def __init__(self, database: sqlite3.Connection, columns: dict[str, set[str]]) -> None:
        self.counts = dict.fromkeys(PHASES, 0)
        self._of_thread: dict[int | None, list[tuple[int, int, str]]] = {}
        if "NVTX_EVENTS" not in columns:
            return
        by_id = "textId" in columns["NVTX_EVENTS"]
        text = (
            "COALESCE(n.text, (SELECT value FROM StringIds WHERE id = n.textId))"
            if by_id
            else "n.text"
        )
        everywhere: list[tuple[int, int, str]] = []
        for start, end, name, thread in database.execute(
            f"SELECT n.start, n.end, {text} AS name, n.globalTid FROM NVTX_EVENTS AS n WHERE "
            f"n.eventType = {_PUSH_POP} AND typeof(n.start) = 'integer' "
            "AND typeof(n.end) = 'integer' AND name IN (?, ?) ORDER BY n.start",
            PHASES,
        ):
            self.counts[name] += 1
            self._of_thread.setdefault(thread, []).append((start, end, name))
            everywhere.append((start, end, name))
        self._of_thread[None] = everywhere

    def phase(self, thread: int | None, at_ns: int | None) -> str:
        """Of a moment of a thread, or of any thread."""
        ranges: Sequence[tuple[int, int, str]] = self._of_thread.get(thread, ())
        if at_ns is None:
            return OTHER
        place = bisect_right(ranges, at_ns, key=lambda one: one[0])
        if place and at_ns <= ranges[place - 1][1]:
            return ranges[place - 1][2]
        return OTHER
