"""Loads on a server, one after another: what it is and takes is found out before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from orin_llm.bench.cool_down import cool_down, require_limit
from orin_llm.bench.distribution import Distribution
from orin_llm.bench.metrics import known
from orin_llm.bench.records import Run
from orin_llm.bench.result import Conditions, Report, Result
from orin_llm.bench.serve.address import Address
from orin_llm.bench.serve.client import Client, Outcome
from orin_llm.bench.serve.driver import Driver, Served
from orin_llm.bench.serve.exchange import find_place
from orin_llm.bench.serve.failure import Failure
from orin_llm.bench.serve.load import Load
from orin_llm.bench.serve.prompts import WordCount, word_prompt
from orin_llm.bench.serve.session import Session
from orin_llm.bench.watch import SensorLog, Watch
from orin_llm.device.reading import Reading
from orin_llm.errors import OrinError, UsageError
from orin_llm.models.reporter import Progress, Reporter

CONNECT_S = 10.0
LATE_MS = 5.0  # by which this program may wake up too late before it is worth a word
_FEW, _MANY = 8, 256  # words of the prompts by which tokens are counted
COUNTED_ROLE = "request"


@dataclass(frozen=True)
class ServeCampaign:
    """What is measured.

    Attributes:
        model: as the server calls it; "" for the first that it has.
        key, body, timeout_s: see Client.
        loads: one after another.
        repetitions: of each.
        warmup: requests before each load that do not count.
        seed: of prompts, lengths and arrivals.
        cool_down_s: see cool_down.py.
    """

    address: Address
    loads: tuple[Load, ...]
    model: str = ""
    endpoint: str = "chat"
    key: str = ""
    body: Mapping[str, Any] | None = None
    timeout_s: float = 300.0
    repetitions: int = 1
    warmup: int = 2
    seed: int = 0
    cool_down_s: float = 0.0

    def __post_init__(self) -> None:
        if self.repetitions < 1:
            raise UsageError(f"{self.repetitions} repetitions: at least one is needed")
        if self.warmup < 0:
            raise UsageError(f"{self.warmup} requests to warm up: expected 0 or more")
        require_limit(self.cool_down_s)


@dataclass(frozen=True)
class Found:
    """A server that was found out about: how it is asked, and how many tokens words are."""

    client: Client
    count: WordCount

    @property
    def settings(self) -> dict[str, object]:
        """As those of an engine: `name` first."""
        client = self.client
        return {
            "name": client.place.address.authority,
            "url": str(client.place.address),
            "model": client.model,
            "server": client.server,
            "ignores_eos": "ignore_eos" in client.extras,
            "tells_usage": client.tells_usage,
        }


def find_server(campaign: ServeCampaign, session: Session, report: Reporter) -> Found:
    """Connect, choose a model, and learn what the server takes and tells.

    Raises:
        OrinError: nothing answers there, or not as such a server does.
    """
    try:
        place = session.call(find_place(campaign.address, min(CONNECT_S, campaign.timeout_s)))
        client = Client(
            place,
            campaign.model,
            campaign.endpoint,
            campaign.key,
            body=campaign.body or {},
            timeout_s=campaign.timeout_s,
        )
        if not client.model:
            client = replace(client, model=_first_model(client, session, report))
        draw = random.Random(f"{campaign.seed} words")
        client = session.call(client.taught(word_prompt(draw, _FEW)))
        count = _count_words(client, campaign.loads, session, draw)
    except Failure as failure:
        raise OrinError(f"{campaign.address}: {failure}{_advice(failure)}") from None
    if "ignore_eos" not in client.extras:
        report.message("the server knows no ignore_eos: answers may be shorter than asked for")
    if not client.tells_usage:
        report.message("the server does not tell how many tokens an answer has: events are counted")
    if count is None:
        report.message("the server does not tell how many tokens a prompt has: words are counted")
    return Found(client, count or WordCount(0.0, 1.0))


def _advice(failure: Failure) -> str:
    if failure.kind == "HTTP 401":
        return " (--api-key, or ORIN_LLM_API_KEY)"
    if failure.kind == "HTTP 404":
        return " (is there another path, another --endpoint or --model?)"
    return ""


def _first_model(client: Client, session: Session, report: Reporter) -> str:
    try:
        names = session.call(client.models())
    except Failure as failure:
        if failure.kind not in ("HTTP 404", "HTTP 405", "stream"):
            raise
        names = []
    if not names:
        raise OrinError(
            f"{client.place.address} does not say which models it has: name one (--model)"
        )
    if len(names) > 1:
        report.message(f"{len(names)} models are there: {names[0]} is asked (--model)")
    return names[0]


def _count_words(
    client: Client, loads: Sequence[Load], session: Session, draw: random.Random
) -> WordCount | None:
    """How many tokens words are; None where the server does not tell, and where nobody asks."""
    longest = max(load.longest_prompt for load in loads)
    if not longest:
        return WordCount(0.0, 1.0)
    words = (_FEW, _FEW + max(32, min(_MANY, longest)))
    tokens: list[int] = []
    for number in words:
        try:
            told = session.call(client.prompt_tokens(word_prompt(draw, number)))
        except Failure as failure:
            if failure.kind in ("connect", "timeout", "disconnect"):
                raise
            told = None
        if told is None:
            return None
        tokens.append(told)
    return WordCount.of(words, tokens)


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
        _tell_lateness(runs, report)


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
            done = 0

            def ended(outcome: Outcome) -> None:
                nonlocal done
                done += outcome.record.role == COUNTED_ROLE
                self.log.look()
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
        counted = (o for o in self.served.outcomes if o.record.role == COUNTED_ROLE)
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


def _tell_lateness(measured: Sequence[_Measured], report: Reporter) -> None:
    lag = _lag(measured)
    if lag is not None and lag.p99 > LATE_MS:
        report.message(
            f"this program itself woke up {lag.p99:.1f} ms too late at times (p99): its figures "
            "are no surer than that; give it a core that is free"
        )
