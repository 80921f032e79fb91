"""What `orin-llm monitor --once` prints: lines for people, or one object for programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from orin_llm.cli.numbers import MISSING, date_and_clock, tenths, whole
from orin_llm.cli.render import joined, tolerate_narrow_encoding, visible
from orin_llm.device.reading import Reading
from orin_llm.host.units import counted, size_text
from orin_llm.monitor.snapshot import Subject
from orin_llm.monitor.state import EngineFigures, State
from orin_llm.monitor.thresholds import Threshold, Thresholds

_LABEL_CELLS = 13


def to_json(subject: Subject, state: State) -> dict[str, Any]:
    """All that is known."""
    return {
        "machine": subject.to_json(),
        "at_ms": state.snapshot.at_ms,
        "temperature_c": state.snapshot.reading.hottest_c,
        "reading": state.snapshot.reading.to_json(),
        "engines": [engine.to_json() for engine in state.engines],
        "alerts": [alert.to_json() for alert in state.alerts],
        "problems": dict(state.problems),
    }


def print_state(subject: Subject, thresholds: Thresholds, state: State, *, is_replay: bool) -> None:
    """The same in lines no longer than the terminal; what nothing tells is left out or –."""
    tolerate_narrow_encoding(sys.stdout)
    time = ("recorded " if is_replay else "") + date_and_clock(state.snapshot.at_ms)
    _print("machine", [subject.name, subject.host or "", *_software(subject), time])
    reading = state.snapshot.reading
    for label, phrases in _machine(subject, reading):
        _print(label, phrases)
    for name, problem in state.problems.items():
        _print("problem", [f"{name}: {problem}"])
    if not state.engines:
        where = "in the recording at its end" if is_replay else "of this user runs"
        print(f"\nno engine {where}")
    for engine in state.engines:
        print()
        for label, phrases in _engine(engine, thresholds):
            _print(label, phrases)
    if state.alerts:
        print()
    for alert in state.alerts:
        _print("ALERT", [alert.text])


def _print(label: str, phrases: Iterable[str]) -> None:
    width = max(20, shutil.get_terminal_size().columns - _LABEL_CELLS - 1)
    lines = joined([visible(phrase) for phrase in phrases if phrase], " | ", width)
    for number, line in enumerate(lines):
        print(f"{label if number == 0 else '':<{_LABEL_CELLS}}{line}")


def _software(subject: Subject) -> Iterator[str]:
    if subject.jetpack:
        yield f"JetPack {subject.jetpack}"
    if subject.l4t:
        yield f"L4T {subject.l4t}"
    if subject.mode:
        yield f"mode {subject.mode}"


def _machine(subject: Subject, reading: Reading) -> Iterator[tuple[str, list[str]]]:
    if reading.cores or reading.cpu_percent is not None:
        online = sum(core.online for core in reading.cores)
        clocks = [core.mhz for core in reading.cores if core.mhz is not None]
        cores = f"{online} of {len(reading.cores)} cores on" if reading.cores else ""
        most = f"up to {max(clocks):.0f} MHz" if clocks else ""
        yield "CPU", [whole(reading.cpu_percent, "%"), cores, most]
    if reading.gpu_percent is not None or reading.gpu_mhz is not None:
        yield "GPU", [whole(reading.gpu_percent, "%"), whole(reading.gpu_mhz, "MHz")]
    yield from _memory(subject, reading)
    if reading.power_w is not None or reading.rails_w:
        budget = f" of {subject.budget_w:g} W" if subject.budget_w is not None else ""
        rails = [f"{name} {watts:.1f} W" for name, watts in reading.rails_w.items()]
        yield "power", [tenths(reading.power_w, "W") + budget, *rails]
    if reading.temperatures_c:
        hottest_first = sorted(reading.temperatures_c.items(), key=lambda item: -item[1])
        yield "temperature", [f"{name} {degrees:.1f} °C" for name, degrees in hottest_first]
    if reading.throttled is not None:
        yield "throttled", [", ".join(reading.throttled) or "nothing"]
    if reading.over_current_events is not None:
        yield "over-current", [f"{reading.over_current_events} events since the start"]
    yield "read from", [", ".join(reading.sources) or MISSING]


def _memory(subject: Subject, reading: Reading) -> Iterator[tuple[str, list[str]]]:
    if reading.emc_percent is not None or reading.emc_mhz is not None:
        peak = subject.peak_bandwidth_gb_s
        of_peak = f" of {peak:.1f} GB/s" if peak is not None else ""
        yield (
            "memory bus",
            [
                whole(reading.emc_percent, "%"),
                whole(reading.emc_mhz, "MHz"),
                tenths(reading.bandwidth_gb_s, "GB/s") + of_peak,
            ],
        )
    if reading.ram_total_bytes is not None:
        swap = reading.swap_total_bytes
        yield (
            "memory",
            [
                _part(reading.ram_used_bytes, reading.ram_total_bytes),
                f"swap {_part(reading.swap_used_bytes, swap)}" if swap else "no swap",
            ],
        )
    if reading.gpu_memory_used_bytes is not None:
        used, total = reading.gpu_memory_used_bytes, reading.gpu_memory_total_bytes
        yield "GPU memory", [size_text(used) if total is None else _part(used, total)]


def _engine(engine: EngineFigures, thresholds: Thresholds) -> Iterator[tuple[str, list[str]]]:
    yield "engine", [PurePath(engine.model).name, f"process {engine.pid}"]
    yield (
        "requests",
        [
            f"{engine.running} of {engine.max_running} running",
            f"{engine.waiting} waiting",
            counted(engine.answers, "answer"),
        ],
    )
    yield (
        "tokens/s",
        [
            "computing" if engine.is_computing else "",
            f"prefill {tenths(engine.prefill_tokens_per_s)}",
            f"decode {tenths(engine.decode_tokens_per_s)}",
            f"step {tenths(engine.step_ms, 'ms')}",
        ],
    )
    mean, last = whole(engine.ttft_ms, "ms"), whole(engine.last_ttft_ms, "ms")
    yield "TTFT", [_latency(mean, last, engine.window_answers, thresholds.ttft_ms)]
    mean, last = tenths(engine.tpot_ms, "ms"), tenths(engine.last_tpot_ms, "ms")
    yield "TPOT", [_latency(mean, last, engine.tpot_window_answers, thresholds.tpot_ms)]
    if engine.kv_used is not None:
        yield (
            "KV cache",
            [
                whole(100 * engine.kv_used, "%"),
                f"{engine.kv_pages_used} of {engine.kv_pages_total} pages",
                _part(engine.kv_bytes_used, engine.kv_bytes_reserved),
                "" if engine.hit_rate is None else f"hit rate {whole(100 * engine.hit_rate, '%')}",
            ],
        )


def _latency(mean: str, last: str, answers: int, threshold: Threshold) -> str:
    if last == MISSING:
        return MISSING
    if mean == MISSING:
        return f"{MISSING} ({answers} of {threshold.window} answers), last {last}"
    return f"{mean} mean of {threshold.window}, last {last}"


def _part(used: int | None, total: int | None) -> str:
    if used is None or total is None:
        return MISSING
    return f"{size_text(used)} of {size_text(total)}"
