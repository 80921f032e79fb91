"""Loads on a server, one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from orin_llm.bench.cool_down import cool_down
from orin_llm.bench.distribution import Distribution
from orin_llm.bench.metrics import known
from orin_llm.bench.records import Run
from orin_llm.bench.result import Conditions, Report, Result
from orin_llm.bench.serve.client import COUNTED, Outcome
from orin_llm.bench.serve.discovery import Found
from orin_llm.bench.serve.driver import Driver, Served
from orin_llm.bench.serve.load import Load
from orin_llm.bench.serve.plan import ServeCampaign
from orin_llm.bench.serve.session import Session
from orin_llm.bench.watch import SensorLog, Watch
from orin_llm.device.reading import Reading
from orin_llm.models.reporter import Progress, Reporter

_LOOK_MS = 10_000.0  # between two looks at the sensors' readings, which delay what comes meanwhile
LATE_MS = 5.0  # by which this program may wake up too late before it is worth a word


def measure_server(
    campaign: ServeCampaign,
    session: Session,
    found: Found,
    environment: dict[str, Any],
    report: Reporter,
    watch: Watch,
    memory_allows: Mapping[int, int] | None = None,
) -> Iterator[Report[Result]]:
    """Run every load; a report of each as soon as it ends.

    Args:
        watch: of the server's machine; without a sampler where that is another one.
        memory_allows: requests at once that memory has room for, by their length in tokens
            (Load.n_ctx).

    Raises:
        KeyboardInterrupt: Ctrl-C came; what was measured until then was reported.
    """
    cool = cool_down(campaign.cool_down_s, watch, report.message)
    for number, load in enumerate(campaign.loads):
        runs: list[_Measured] = []
        for repetition in range(campaign.repetitions):
            text = f"{load.label}, {repetition + 1}/{campaign.repetitions}"
            cool()
            report.message(text)
            log = SensorLog(watch.sampler)
            one = _Repetition(campaign, session, found, load, f"{number} {repetition}", log)
            served = one.run(text, report)
            runs.append(_Measured(served, log.end()))
            if served.stopped:
                break
        allowed = (memory_allows or {}).get(load.n_ctx)
        if any(one.counted for one in runs):
            yield Report(environment, (_result(campaign, found, load, runs, watch, allowed),))
        if runs[-1].served.stopped:
            raise KeyboardInterrupt
        _tell_doubts(runs, report)


@dataclass(frozen=True)
class _Repetition:
    """One repetition of a load."""

    campaign: ServeCampaign
    session: Session
    found: Found
    load: Load
    name: str
    log: SensorLog

    def run(self, text: str, report: Reporter) -> Served:
        stop = asyncio.Event()
        with self.session.stop_on_interrupt(stop):
            warmed = self._warm_up(stop)
            if warmed is not None and warmed.stopped:
                return replace(warmed, outcomes=[])
            total = self.load.counted
            done, looked_ms = 0, 0.0

            def ended(outcome: Outcome) -> None:
                nonlocal done, looked_ms
                done += outcome.record.role == COUNTED
                if outcome.record.finished_ms - looked_ms > _LOOK_MS:
                    self.log.look()
                    looked_ms = outcome.record.finished_ms
                report.progress(Progress(text, done, total, "requests"))

            orders = self.load.orders(self.found.count, f"{self.campaign.seed} {self.name}")
            work = self.load.driver.run(orders, self.found.client, stop, ended)
            return self.session.call(work)

    def _warm_up(self, stop: asyncio.Event) -> Served | None:
        """Requests one after another, or by as many users as the load has."""
        if not self.campaign.warmup:
            return None
        users = min(self.load.max_concurrency or 1, self.campaign.warmup)
        driver = Driver(users, closed=True, counted=self.campaign.warmup)
        orders = self.load.orders(self.found.count, f"{self.campaign.seed} {self.name} warm-up")
        first = islice(orders, self.campaign.warmup)
        return self.session.call(driver.run(first, self.found.client, stop))


@dataclass(frozen=True)
class _Measured:
    """One repetition of a load, and the machine meanwhile."""

    served: Served
    readings: tuple[Reading, ...]

    @property
    def counted(self) -> list[Outcome]:
        """The requests that count, in the order in which they were sent."""
        counted = (o for o in self.served.outcomes if o.record.role == COUNTED)
        return sorted(counted, key=lambda outcome: outcome.record.submitted_ms)


def _result(
    campaign: ServeCampaign,
    found: Found,
    load: Load,
    measured: Sequence[_Measured],
    watch: Watch,
    memory_allows: int | None,
) -> Result:
    kept = [one for one in measured if one.counted]
    runs = [Run(tuple(o.record for o in m.counted), readings=m.readings) for m in kept]
    conditions = Conditions(
        load, 0, campaign.warmup, campaign.seed, memory_allows, module=watch.module
    )
    result = conditions.result(found.settings, runs, runs)
    good = [o for one in kept for o in one.counted if not o.record.error]
    more = {"connect_ms": Distribution.of(known([o.connect_ms for o in good]))}
    if not load.is_closed:
        more["late_ms"] = Distribution.of([o.late_ms for o in good])
    more["client_lag_ms"] = _lag(kept)
    result = replace(result, latency={**result.latency, **more})
    if measured[-1].served.stopped:
        marked = {**result.workload, "interrupted": True}
        return replace(result, label=f"{result.label} (interrupted)", workload=marked)
    return result


def _lag(measured: Sequence[_Measured]) -> Distribution | None:
    return Distribution.of([lag for one in measured for lag in one.served.lag_ms])


def _tell_doubts(measured: Sequence[_Measured], report: Reporter) -> None:
    """What makes a load's figures less than they seem."""
    reasons = [o.finish_reason for one in measured for o in one.counted]
    if ended := reasons.count("stop"):
        report.message(
            f"{ended} of {len(reasons)} answers were ended by the model, not by their length: see "
            "answer_tokens"
        )
    lag = _lag(measured)
    if lag is not None and lag.p99 > LATE_MS:
        report.message(
            f"this program itself woke up {lag.p99:.1f} ms too late at times (p99): its figures "
            "are no surer than that; give it a core that is free"
        )
