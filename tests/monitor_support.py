"""Snapshots as the tests of the monitor make them, and an engine in a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes import environment, python

from orin_llm.device.reading import Reading
from orin_llm.monitor.snapshot import EngineSample, Snapshot

START_MS = 1.8e12  # Unix time

# Answers a request for each line of its input: as many tokens as the line says.
ENGINE = """
    import sys
    from pathlib import Path
    from orin_llm.engine import Engine, EngineConfig, Request

    with Engine(Path(sys.argv[1]), EngineConfig(n_ctx=256, threads=1)) as engine:
        print(engine.publisher.path, flush=True)
        for line in sys.stdin:
            list(engine.complete(Request([5, 6, 7], max_tokens=int(line), ignore_eos=True)))
            print("answered", flush=True)
"""


def snapshot(
    at_s: float, *engines: EngineSample, clock_s: float | None = None, **reading: Any
) -> Snapshot:
    """At a time from the start on; `clock_s` is that of the readings' clock if it differs."""
    clock_ms = (at_s if clock_s is None else clock_s) * 1e3
    return Snapshot(START_MS + at_s * 1e3, Reading(clock_ms, **reading), engines)


def engine(line: Mapping[str, Any], name: str = "7-0", pid: int = 7) -> EngineSample:
    return EngineSample(name, pid, "/models/a.gguf", line)


def line(
    at_s: float,
    *,
    decoded: int = 0,
    prefilled: int = 0,
    steps: int = 0,
    decode_ms: float = 0.0,
    sampling_ms: float = 0.0,
    answers: Sequence[Mapping[str, Any]] | None = None,
    kv: tuple[int, int, int] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """What an engine publishes; `kv` is pages used, cached, free."""
    values: dict[str, Any] = {
        "at_ms": START_MS + at_s * 1e3,
        "monotonic_ms": at_s * 1e3,
        "requests": {"running": 1, "waiting": 2, "submitted": 5, "finished": 4},
        "steps": {"total": steps, "prefill": 0, "decode": steps},
        "tokens": {"prefilled": prefilled, "decoded": decoded},
        "time_ms": {"decode": decode_ms, "sampling": sampling_ms},
        "lanes": {"running": 1, "max": 16},
        "kv": None,
    }
    if kv is not None:
        names = ("pages_used", "pages_cached", "pages_free")
        values["kv"] = {**dict(zip(names, kv, strict=True)), "hit_rate": 0.5}
    if answers is not None:
        values["answers"] = list(answers)
    return {**values, **more}


def answer(number: int, ttft_ms: float = 100.0, tpot_ms: float | None = 20.0) -> dict[str, Any]:
    times = {"ended_ms": 1e3 * number, "ttft_ms": ttft_ms, "tpot_ms": tpot_ms}
    return {"number": number, **times, "prompt_tokens": 3, "tokens": 4}


@contextmanager
def engine_process(model: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with an engine that publishes below the folder."""
    process = subprocess.Popen(
        python(ENGINE, str(model)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(XDG_RUNTIME_DIR=str(folder)),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().rstrip().endswith(".sock")
        yield process
    finally:
        process.kill()
        process.communicate()


def ask(process: subprocess.Popen[str], tokens: int) -> None:
    """Have the engine answer with so many tokens, and wait for it."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{tokens}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "answered\n"
