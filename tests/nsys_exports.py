"""Synthetic exports of Nsight Systems: made after NVIDIA's published schema, none is of a real run.

"SQLite Export Schema Reference" of the Nsight Systems documentation (2024): tables are only there
where something was recorded. Columns that nobody here reads are mostly left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from orin_llm.trace.record import CAPTURE_RANGE

SCHEMA = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, "
    "rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, "
    "endGlobalTid INTEGER, textId INTEGER, domainId INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, "
    "nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, "
    "shortName INTEGER NOT NULL, gridX INTEGER NOT NULL, blockX INTEGER NOT NULL, "
    "graphNodeId INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, "
    "copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER, graphNodeId INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL, "
    "graphNodeId INTEGER, memKind INTEGER",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER",
}
PID = 77 << 24
ENGINE_THREAD, MAIN_THREAD = PID | 101, PID | 100


@dataclass
class NsysExport:
    """Rows as they come; times in microseconds."""

    rows: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    _strings: dict[str, int] = field(default_factory=dict)
    _calls: int = 0

    def range(
        self, name: str, start: float, end: float | None, thread: int = ENGINE_THREAD, *,
        registered: bool = False, kind: int = 59,
    ) -> None:  # fmt: skip
        text = {"textId": self._string(name)} if registered else {"text": name}
        times = {"start": _ns(start), "end": None if end is None else _ns(end)}
        self._add("NVTX_EVENTS", **times, eventType=kind, globalTid=thread, domainId=0, **text)

    def kernel(self, name: str, start: float, end: float, called: float, **more: int) -> None:
        string = self._string(name)
        self._work("KERNEL", start, end, called, more, demangledName=string, shortName=string)

    def graph(self, number: int, start: float, end: float, called: float) -> None:
        self._work("GRAPH_TRACE", start, end, called, {}, graphId=number)

    def copy(self, kind: int, size: int, start: float, end: float, called: float) -> None:
        self._work("MEMCPY", start, end, called, {}, copyKind=kind, bytes=size)

    def set(self, size: int, start: float, end: float, called: float) -> None:
        self._work("MEMSET", start, end, called, {}, bytes=size)

    def write(self, path: Path, leave_out: Iterable[str] = ()) -> Path:
        with closing(sqlite3.connect(path)) as database:
            self._string("cudaLaunchKernel")
            self.rows["StringIds"] = [
                {"id": number, "value": text} for text, number in self._strings.items()
            ]
            for table, rows in self.rows.items():
                if table in leave_out:
                    continue
                database.execute(f"CREATE TABLE {table} ({SCHEMA[table]})")
                for row in rows:
                    marks = ", ".join("?" * len(row))
                    names = ", ".join(row)
                    database.execute(
                        f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values())
                    )
            database.commit()
        return path

    def _work(
        self, table: str, start: float, end: float, called: float, more: dict[str, int],
        **own: int,
    ) -> None:  # fmt: skip
        thread = more.pop("thread", ENGINE_THREAD)
        self._calls += 1
        call = {"correlationId": self._calls}
        self._add(
            "CUPTI_ACTIVITY_KIND_RUNTIME", start=_ns(called), end=_ns(called + 1), eventClass=0,
            globalTid=thread, nameId=self._string("cudaLaunchKernel"), returnValue=0, **call,
        )  # fmt: skip
        place = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": thread >> 24 << 24}
        zeros = {
            name: 0
            for name in ("gridX", "blockX", "value")
            if f"{name} INTEGER NOT NULL" in SCHEMA[f"CUPTI_ACTIVITY_KIND_{table}"]
        }
        self._add(
            f"CUPTI_ACTIVITY_KIND_{table}", start=_ns(start), end=_ns(end), **call,
            **{**place, **zeros, **more, **own},
        )  # fmt: skip

    def _add(self, table: str, **row: object) -> None:
        self.rows.setdefault(table, []).append(row)

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings) + 1)


def _ns(us: float) -> int:
    return round(us * 1000)


def exported_steps() -> NsysExport:
    """A prompt, and two tokens: the second step is queued while the first is computed."""
    export = NsysExport()
    export.range(CAPTURE_RANGE, 0, 1000, MAIN_THREAD)
    export.range("prefill", 10, 40)
    export.range("decode", 50, 60, registered=True)
    export.range("decode", 300, 310)
    export.copy(1, 4096, 20, 30, called=12)
    export.kernel("gemm<float, 128>", 40, 100, called=15)
    export.kernel("gemm<float, 128>", 100, 160, called=20)
    export.kernel("attention", 170, 180, called=38)
    export.kernel("vector", 185, 205, called=55)  # long after its range
    export.kernel("vector", 320, 335, called=305)
    export.copy(2, 64, 340, 341, called=309)
    export.set(128, 600, 602, called=500)  # of no step
    return export
