"""How long the GPU waits between two steps, and what comes back from it, as nsys sees it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import median

from gpu_check.steps import Context, Found, StepFailed, python

_TOKENS = (64, 192)  # what does not grow with them cancels out
_TO_HOST = 2  # copyKind
_BUSY = ("KERNEL", "MEMCPY", "MEMSET")


def trace(shape: str, context: Context) -> Found:
    """The step: two answers of different lengths under the profiler."""
    if shutil.which("nsys") is None:
        raise StepFailed("unmeasured: no nsys on PATH (Nsight Systems)")
    files = [_profile(context, shape, n) for n in _TOKENS]
    few, many = map(read_trace, files)
    bytes_of = [found["to_host_bytes"] for found in (few, many)]
    # Each answer is written twice: the first run does not count elsewhere, but is seen here.
    tokens = 2 * (_TOKENS[1] - _TOKENS[0])
    return {
        "to_host_bytes_per_token": (bytes_of[1] - bytes_of[0]) / tokens,
        "idle_us": many["idle_us"],
        "graphs": many["graphs"],
    }


def _profile(context: Context, shape: str, n_tokens: int) -> Path:
    report = context.work / "logs" / f"{context.name}.{n_tokens}"
    options = ["--trace=cuda", "--cuda-graph-trace=graph", "--force-overwrite=true"]
    arguments = (str(context.model(shape)), str(n_tokens), "1", context.threads)
    child = python("gpu_check.answer_child", *arguments)
    context.need(["nsys", "profile", *options, "-o", str(report), *child], f"{n_tokens}")
    file = report.with_name(f"{report.name}.sqlite")
    export = ["nsys", "export", "--type=sqlite", "--force-overwrite=true", "-o", str(file)]
    context.need([*export, f"{report}.nsys-rep"], f"{n_tokens}.export")
    return file


def read_trace(file: Path) -> Found:
    """Of a trace in which the steps are CUDA graphs.

    idle_us: median of the time between the ends and beginnings of graphs that follow one another
        in which the GPU does nothing; None where there are no graphs.
    to_host_bytes: of all copies to the host.
    """
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}

        def spans(kind: str) -> list[tuple[int, int]]:
            table = f"CUPTI_ACTIVITY_KIND_{kind}"
            if table not in tables:
                return []
            return list(database.execute(f"SELECT start, end FROM {table} ORDER BY start"))

        graphs = spans("GRAPH_TRACE")
        between = sorted(span for kind in _BUSY for span in spans(kind))
        (to_host,) = (
            database.execute(
                "SELECT COALESCE(SUM(bytes), 0) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = ?",
                (_TO_HOST,),
            ).fetchone()
            if "CUPTI_ACTIVITY_KIND_MEMCPY" in tables
            else (0,)
        )
    idle = idle_between(graphs, between)
    return {
        "idle_us": median(idle) / 1e3 if idle else None,
        "graphs": len(graphs),
        "to_host_bytes": to_host,
    }


def idle_between(graphs: list[tuple[int, int]], others: list[tuple[int, int]]) -> list[int]:
    """The idle time, in the unit of the spans, between each two graphs that follow one another."""
    idle = []
    first = 0
    for (_, end), (begin, _) in pairwise(graphs):
        while first < len(others) and others[first][1] <= end:
            first += 1
        waited, at = 0, end
        for start, stop in others[first:]:
            if start >= begin:
                break
            waited += max(0, start - at)
            at = max(at, stop)
        idle.append(waited + max(0, begin - at))
    return idle
