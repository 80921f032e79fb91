"""Sweeps of the load, and their knee: where more throughput stops paying for its latency."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from orin_llm.host.units import counted

if TYPE_CHECKING:
    from orin_llm.bench.result import Result

LEAST_POINTS = 3  # two are a line
THROUGHPUT = "output_tokens_per_s"
LATENCY = "e2el_ms"
# What a sweep may be over, by the name in a workload's settings; the first that varies is it.
LOADS = {
    "rate_per_s": "per second",
    "max_concurrency": "at once",
    "streams": "at once",
}


@dataclass(frozen=True)
class LoadPoint:
    """What a load gave.

    Attributes:
        load: requests at the same time, or requests per second.
        throughput_per_s: tokens of answers.
        latency_ms: mean time of a whole request.
    """

    load: float
    throughput_per_s: float
    latency_ms: float

    @property
    def power(self) -> float:
        """Throughput over latency, which is greatest at the knee."""
        return self.throughput_per_s / self.latency_ms


@dataclass(frozen=True)
class Knee:
    """The load up to which throughput grows by a greater factor than latency.

    Attributes:
        passed: a higher load was measured; else throughput still paid at the highest one.
    """

    point: LoadPoint
    passed: bool


def find_knee(points: Sequence[LoadPoint]) -> Knee | None:
    """The point with the greatest throughput over latency; of equal ones that of the least load.

    Behind it each per cent of throughput costs more than a per cent of latency (Kleinrock's
    "power" of a queueing system, Proc. ICC 1979). None with fewer than LEAST_POINTS loads, or
    where a throughput or a latency is not above zero.
    """
    ordered = sorted(points, key=lambda point: point.load)
    if len({point.load for point in ordered}) < LEAST_POINTS:
        return None
    if any(point.throughput_per_s <= 0 or point.latency_ms <= 0 for point in ordered):
        return None
    best = max(ordered, key=lambda point: point.power)
    return Knee(best, passed=best.load < ordered[-1].load)


@dataclass(frozen=True)
class Sweep:
    """Results that differ in nothing but the load, by rising load.

    Attributes:
        label: what they have in common.
        engine: the contender's name.
        load_name: the setting that varies, one of LOADS.
        memory_allows: requests at once that the memory arithmetic allows; None: nothing tells.
        failed_loads: those with requests that failed; they are no points, for a server that turns
            requests away is quick with the others.
    """

    label: str
    engine: str
    load_name: str
    points: tuple[LoadPoint, ...]
    memory_allows: int | None = None
    failed_loads: tuple[float, ...] = ()

    @property
    def knee(self) -> Knee | None:
        return find_knee(self.points)

    @property
    def text(self) -> str:
        """The knee in a sentence, beside what memory allows."""
        knee = self.knee
        if knee is None:
            said = "no knee can be told"
        else:
            load = f"{counted(knee.point.load, 'request')} {LOADS[self.load_name]}"
            said = (
                f"the knee is at {load}"
                if knee.passed
                else (f"no knee up to {load}: throughput still pays there")
            )
        if self.failed_loads:
            loads = ", ".join(f"{load:g}" for load in self.failed_loads)
            said += f" (left out, for requests failed: {loads})"
        if self.memory_allows is not None:
            said += f"; memory allows {counted(self.memory_allows, 'request')} at once"
        return said

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {**asdict(self), "knee": asdict(self.knee) if self.knee else None, "text": self.text}


def sweeps(results: Sequence[Result]) -> list[Sweep]:
    """The results that are sweeps of LEAST_POINTS loads or more; those of a kind together."""
    found: list[Sweep] = []
    left = list(results)
    for name in LOADS:
        kinds: dict[str, list[Result]] = {}
        for result in left:
            if isinstance(result.workload.get(name), (int, float)):
                kinds.setdefault(_kind(result, name), []).append(result)
        for members in kinds.values():
            if len({_load(member, name) for member in members}) >= LEAST_POINTS:
                found.append(_sweep(name, members))
                left = [result for result in left if not any(result is m for m in members)]
    return found


def _sweep(load_name: str, members: Sequence[Result]) -> Sweep:
    ordered = sorted(members, key=lambda result: _load(result, load_name))
    first = ordered[0]
    points = [(result, _point(result, load_name)) for result in ordered]
    allowed = {result.memory_allows for result in ordered}
    return Sweep(
        label=_common(first.workload, load_name),
        engine=str(first.engine["name"]),
        load_name=load_name,
        points=tuple(point for _, point in points if point is not None),
        memory_allows=allowed.pop() if len(allowed) == 1 else None,
        failed_loads=tuple(_load(result, load_name) for result, point in points if point is None),
    )


def _point(result: Result, load_name: str) -> LoadPoint | None:
    """None where requests failed."""
    throughput, latency = result.figures.get(THROUGHPUT), result.latency.get(LATENCY)
    if result.failed or throughput is None or latency is None:
        return None
    return LoadPoint(_load(result, load_name), throughput.median, latency.mean)


def _load(result: Result, load_name: str) -> float:
    return float(str(result.workload[load_name]))


def _kind(result: Result, load_name: str) -> str:
    return json.dumps([_others(result.workload, load_name), result.engine], default=str)


def _others(workload: Mapping[str, object], load_name: str) -> dict[str, object]:
    """The settings that do not follow from the load: `single` is `concurrent` of one stream, and
    a server gets more requests where more come at once.
    """
    return {k: v for k, v in workload.items() if k not in (load_name, "workload", "requests")}


def _common(workload: Mapping[str, object], load_name: str) -> str:
    """`prompt_tokens 512, max_tokens 128`: the settings that are none of the load, or nothing."""
    said = {k: v for k, v in _others(workload, load_name).items() if v not in (None, 0, "")}
    return ", ".join(f"{name} {value}" for name, value in said.items())
