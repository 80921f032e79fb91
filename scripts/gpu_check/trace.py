"""How long the GPU waits between two steps, and what comes back from it, as CUDA itself tells.

cupti_trace.cpp, which the driver loads into the program, writes down what the GPU does.
"""

from __future__ import annotations

import os
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from statistics import median

from checking.checkout import python
from checking.steps import Found, StepFailed
from gpu_check.steps import Context
from native.toolkits import find_nvcc

_SOURCE = Path(__file__).with_name("cupti_trace.cpp")
_TOKENS = (64, 192)  # what does not grow with them cancels out
_TO_HOST = 2  # CUpti_ActivityMemcpyKind
_INCLUDES = ("include", "extras/CUPTI/include", "targets/*/include")
_LIBRARIES = ("lib64", "lib", "extras/CUPTI/lib64", "targets/*/lib")
Span = tuple[int, int]


def trace(shape: str, context: Context) -> Found:
    """The step: two answers of different lengths while it is written down what the GPU does."""
    library = build_tracer(context)
    few, many = (_traced(context, library, shape, n_tokens) for n_tokens in _TOKENS)
    # Each answer is written twice: the first does not count elsewhere, but it does here.
    tokens = 2 * (_TOKENS[1] - _TOKENS[0])
    return {
        "to_host_bytes_per_token": (many["to_host_bytes"] - few["to_host_bytes"]) / tokens,
        "idle_us": many["idle_us"],
        "graphs": many["graphs"],
    }


def build_tracer(context: Context) -> Path:
    """The library that writes it down. Raises StepFailed where CUPTI is not there."""
    library = context.work / "libtrace.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    top = cuda_folder()
    include, lib = _find(top, _INCLUDES, "cupti.h"), _find(top, _LIBRARIES, "libcupti.so")
    if include is None or lib is None:
        raise StepFailed(
            f"unmeasured: no CUPTI (cupti.h, libcupti.so) below {top}: it is part of the CUDA"
            " toolkit (cuda-cupti-dev)"
        )
    command = [os.environ.get("CXX") or "c++", "-std=c++17", "-O1", "-shared", "-fPIC"]
    command += ["-fvisibility=hidden", f"-I{top / 'include'}", f"-I{include}", str(_SOURCE)]
    command += [f"-L{lib}", "-lcupti", f"-Wl,-rpath,{lib}", "-o", str(library)]
    context.need(command, "tracer")
    return library


def cuda_folder() -> Path:
    """Where the toolkit lies whose compiler nvcc is, which may be a script that calls it."""
    nvcc = find_nvcc()
    command = [nvcc, "--dryrun", "-x", "cu", os.devnull, "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    named = re.search(r"^#\$ TOP=(.+)$", done.stderr, re.MULTILINE)
    return Path(named[1].strip() if named else Path(nvcc).parents[1]).resolve()


def _find(top: Path, folders: tuple[str, ...], name: str) -> Path | None:
    found = (folder for pattern in folders for folder in sorted(top.glob(pattern)))
    return next((folder for folder in found if (folder / name).exists()), None)


def _traced(context: Context, library: Path, shape: str, n_tokens: int) -> Found:
    file = context.work / "logs" / f"{context.name}.{n_tokens}.trace"
    file.unlink(missing_ok=True)
    arguments = (str(context.model(shape)), str(n_tokens), "1", context.threads)
    environ = {"CUDA_INJECTION64_PATH": str(library), "ORIN_TRACE": str(file)}
    context.need(python("gpu_check.answer_child", *arguments), str(n_tokens), environ)
    if not file.exists():
        raise StepFailed("unmeasured: the driver did not load the tracer (CUDA_INJECTION64_PATH)")
    return read_trace(file)


def read_trace(file: Path) -> Found:
    """Of a trace in which the steps are CUDA graphs.

    idle_us: median of the time between the ends and beginnings of graphs that follow one another
        in which the GPU does nothing; None where there are no graphs.
    to_host_bytes: of all copies to the host.

    Raises StepFailed where it is not whole.
    """
    lines = [line.split() for line in file.read_text().splitlines()]
    if not lines or lines[-1] != ["dropped", "0"]:
        end = " ".join(lines[-1]) if lines else "nothing"
        raise StepFailed(f"unmeasured: the trace is not whole, it ends with: {end}")
    work = [(line[0], (int(line[1]), int(line[2])), line[3:]) for line in lines[:-1]]
    graphs = sorted(span for kind, span, _ in work if kind == "graph")
    others = sorted(span for kind, span, _ in work if kind != "graph")
    idle = idle_between(graphs, others)
    return {
        "idle_us": median(idle) / 1e3 if idle else None,
        "graphs": len(graphs),
        "to_host_bytes": sum(
            int(more[0]) for kind, _, more in work if kind == "copy" and int(more[1]) == _TO_HOST
        ),
    }


def idle_between(graphs: list[Span], others: list[Span]) -> list[int]:
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
