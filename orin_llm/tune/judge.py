"""Reads the memory's and the GPU's load beside the time: what limits a phase, and what that rules
out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orin_llm.tune.knobs import Candidate
from orin_llm.tune.measurement import Load
from orin_llm.tune.outcome import Trial, Verdict

CHUNK = "chunk_size"
EMC_SATURATED = 85.0  # percent of the clock it has; the rest goes into refreshes and turnarounds
GPU_BUSY = 90.0
IDLE = 60.0  # percent below which neither of the two is what all waits for
GPU_FALLS = 5.0  # percent points, from the next smaller chunk


def judge(trial: Trial, earlier: Iterable[Trial]) -> tuple[Verdict, ...]:
    """What limits prefill and decode of a trial, as far as its readings tell."""
    measured = trial.measurement
    if measured is None:
        return ()
    smaller = _next_smaller(trial, earlier)
    falls_from = smaller.measurement.prefill.gpu_percent if smaller else None  # type: ignore[union-attr]
    chunk = trial.candidate.get(CHUNK)
    verdicts = (
        _prefill(measured.prefill, falls_from, chunk),
        _decode(measured.decode),
    )
    return tuple(verdict for verdict in verdicts if verdict is not None)


def ruled_out(candidate: Candidate, trials: Sequence[Trial]) -> str:
    """Why a candidate needs no measurement, from trials that differ from it in the chunk alone; ""
    where nothing rules it out.

    A prefill bound by bandwidth gets no faster by larger chunks, one that waits for launches
    none by smaller ones.
    """
    chunk = candidate.get(CHUNK)
    if not isinstance(chunk, int):
        return ""
    for trial in trials:
        other = trial.candidate.get(CHUNK)
        if not isinstance(other, int) or candidate.having(CHUNK, other) != trial.candidate:
            continue
        for verdict in judge(trial, trials):  # again: smaller chunks may have come since
            if verdict.phase != "prefill":
                continue
            if verdict.bound == "bandwidth" and verdict.advice and chunk > other:
                return f"chunks above {other} no longer pay: {verdict.reason}"
            if verdict.bound == "launch" and chunk < other:
                return f"chunks below {other} would launch still more: {verdict.reason}"
    return ""


def _prefill(load: Load, falls_from: float | None, chunk: object) -> Verdict | None:
    gpu, emc = load.gpu_percent, load.emc_percent
    if gpu is None or emc is None:
        return None
    figures = _figures(load)
    if emc >= EMC_SATURATED:
        if falls_from is not None and gpu <= falls_from - GPU_FALLS:
            reason = f"{figures}, and the GPU had {falls_from:.0f} % with the next smaller chunk"
            return Verdict("prefill", "bandwidth", reason, "larger chunks no longer pay")
        return Verdict("prefill", "bandwidth", figures)
    if gpu >= GPU_BUSY:
        return Verdict("prefill", "compute", figures)
    if gpu < IDLE and emc < IDLE:
        return Verdict("prefill", "launch", figures, f"chunks above {chunk}")
    return Verdict("prefill", "unknown", figures)


def _decode(load: Load) -> Verdict | None:
    gpu, emc = load.gpu_percent, load.emc_percent
    if gpu is None or emc is None:
        return None
    figures = _figures(load)
    if emc >= EMC_SATURATED:
        return Verdict("decode", "bandwidth", figures)
    if gpu < IDLE and emc < IDLE:
        return Verdict("decode", "launch", figures, "captured graphs, fewer and larger launches")
    if gpu >= GPU_BUSY:
        return Verdict("decode", "compute", figures)
    return Verdict("decode", "unknown", figures)


def _figures(load: Load) -> str:
    mhz = f" of {load.emc_mhz:.0f} MHz" if load.emc_mhz is not None else ""
    rate = f" ({load.bandwidth_gb_s:.0f} GB/s)" if load.bandwidth_gb_s is not None else ""
    return f"EMC {load.emc_percent:.0f} %{mhz}{rate}, GPU {load.gpu_percent:.0f} %"


def _next_smaller(trial: Trial, earlier: Iterable[Trial]) -> Trial | None:
    """The trial that differs in the chunk alone, and in that the least, downwards."""
    chunk = trial.candidate.get(CHUNK)
    if not isinstance(chunk, int):
        return None
    found: Trial | None = None
    best = 0
    for other in earlier:
        size = other.candidate.get(CHUNK)
        if other.state != "measured" or not isinstance(size, int) or not best < size < chunk:
            continue
        if trial.candidate.having(CHUNK, size) == other.candidate:
            found, best = other, size
    return found
