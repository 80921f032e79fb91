"""Loads: when requests come, who makes them, and what of them counts, on a clock that is exact."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from bench_support import failed, request, run_of
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import run_virtually

from orin_llm.bench.lengths import Lengths
from orin_llm.bench.serve import driver
from orin_llm.bench.serve.arrivals import Arrivals
from orin_llm.bench.serve.client import Order, Outcome
from orin_llm.bench.serve.dataset import read_dataset
from orin_llm.bench.serve.driver import Driver, Served
from orin_llm.bench.serve.goodput import Goodput
from orin_llm.bench.serve.load import Load, Recorded
from orin_llm.bench.serve.prompts import Prompt, WordCount
from orin_llm.bench.trace import TracedRequest
from orin_llm.errors import UsageError


def times(arrivals: Arrivals, count: int, seed: int = 1) -> np.ndarray:
    return np.array(list(islice(arrivals.times_s(random.Random(seed)), count)))


def test_fixed_arrivals_are_evenly_spaced() -> None:
    assert times(Arrivals(4, None), 5).tolist() == [0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("shape", [0.5, 1.0, 4.0])
def test_random_arrivals_have_the_rate_and_the_burstiness_that_was_asked_for(shape: float) -> None:
    """Gaps of a gamma distribution: mean 1 / rate, coefficient of variation 1 / sqrt(shape)."""
    gaps = np.diff(times(Arrivals(20, shape), 20001))
    assert gaps.mean() == pytest.approx(1 / 20, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(shape**-0.5, rel=0.05)


def test_a_ramp_lets_the_rate_grow_evenly() -> None:
    """Up to t < ramp, rate × t² / (2 ramp) requests have come; from then on all at the rate."""
    found = times(Arrivals(10, None, ramp_s=8), 61)
    expected = np.arange(41)
    assert found[:41] == pytest.approx(np.sqrt(2 * 8 * expected / 10))
    assert found[40] == pytest.approx(8)
    assert np.diff(found[40:]) == pytest.approx(0.1)


@given(st.floats(0.01, 100), st.floats(0.1, 10) | st.none(), st.floats(0, 50), st.integers(0, 9))
def test_arrivals_never_go_back(rate: float, shape: float | None, ramp: float, seed: int) -> None:
    found = times(Arrivals(rate, shape, ramp), 50, seed)
    assert found[0] == 0 and (np.diff(found) >= 0).all() and np.isfinite(found).all()


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e9])
def test_rates_that_cannot_be_are_refused(rate: float) -> None:
    with pytest.raises(UsageError, match="--rate"):
        Arrivals(rate)
    with pytest.raises(UsageError, match="--burstiness"):
        Arrivals(1.0, rate if rate < 1e9 else float("inf"))


@dataclass
class Service:
    """Takes a time for each request; remembers when they came, and how many at once."""

    takes_s: float = 1.0
    fails: bool = False
    sent_s: list[float] = field(default_factory=list)
    running: int = 0
    peak: int = 0

    async def complete(self, order: Order, due_ms: float) -> Outcome:
        loop = asyncio.get_running_loop()
        sent = loop.time()
        self.sent_s.append(sent)
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await asyncio.sleep(self.takes_s)
        finally:
            self.running -= 1
        end_ms = loop.time() * 1e3
        record = request([end_ms], submitted_ms=sent * 1e3, role=order.role)
        if self.fails:
            record = replace(record, error="no", error_kind="no")
        return Outcome(record, 0.0, sent * 1e3 - due_ms, "length")


def orders(*at_s: float) -> Iterator[Order]:
    return (Order(Prompt.of("x"), 1, at) for at in at_s)


def drive(driver: Driver, its: Iterator[Order], service: Service, stop_s: float = 1e9) -> Served:
    async def work() -> Served:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(stop_s, stop.set)
        return await driver.run(its, service, stop)

    return run_virtually(work())


def since_begin(served: Served, service: Service) -> list[float]:
    return [round(at - served.begin_ms / 1e3, 6) for at in service.sent_s]


def many() -> Iterator[Order]:
    return orders(*[0.0] * 10000)


def test_an_open_loop_sends_when_requests_are_due_whatever_became_of_others() -> None:
    service = Service(takes_s=5)
    served = drive(Driver(None, closed=False), orders(0, 0.5, 0.5, 3), service)
    assert since_begin(served, service) == [0, 0.5, 0.5, 3]
    assert service.peak == 4
    assert [outcome.late_ms for outcome in served.outcomes] == pytest.approx([0] * 4, abs=1e-6)


def test_a_limit_lets_requests_wait_here_and_tells_how_late_they_were_sent() -> None:
    service = Service(takes_s=1)
    served = drive(Driver(2, closed=False), orders(0, 0, 0.25, 0.5), service)
    assert since_begin(served, service) == [0, 0, 1, 1] and service.peak == 2
    assert [outcome.late_ms for outcome in served.outcomes] == pytest.approx(
        [0, 0, 750, 500], abs=1e-6
    )


def test_users_of_a_closed_loop_ask_as_soon_as_they_have_an_answer() -> None:
    service = Service(takes_s=0.5)
    served = drive(Driver(3, closed=True, counted=7), many(), service)
    assert since_begin(served, service) == [0, 0, 0, 0.5, 0.5, 0.5, 1]
    assert service.peak == 3 and len(served.outcomes) == 7


def test_after_the_time_nothing_is_sent_and_what_runs_is_ended_well() -> None:
    service = Service(takes_s=0.4)
    served = drive(Driver(1, closed=True, duration_s=1), many(), service)
    assert since_begin(served, service) == [0, 0.4, 0.8]
    assert len(served.outcomes) == 3
    service = Service(takes_s=9)
    served = drive(Driver(None, closed=False, duration_s=1), orders(0, 0.9, 1, 1.1), service)
    assert since_begin(served, service) == [0, 0.9] and len(served.outcomes) == 2


def test_what_is_sent_in_the_ramp_does_not_count() -> None:
    """Four users begin a second apart; from the fourth second on six requests count."""
    service = Service(takes_s=10)
    served = drive(Driver(4, closed=True, ramp_s=4, counted=6), many(), service)
    assert since_begin(served, service) == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21]
    roles = [outcome.record.role for outcome in served.outcomes]
    assert roles == ["ramp"] * 4 + ["request"] * 6
    load = Load("chat", Lengths(9, 9), Lengths(1, 1), Arrivals(2, None, 4), requests=3, ramp_s=4)
    service = Service(takes_s=0.1)
    its = load.orders(WordCount(0, 1), "1")
    served = drive(load.driver, its, service)
    assert [o.record.role for o in served.outcomes].count("request") == 3
    assert since_begin(served, service)[-3:] == [4, 4.5, 5]


def test_a_user_who_was_refused_waits_a_moment() -> None:
    service = Service(takes_s=0, fails=True)
    served = drive(Driver(1, closed=True, duration_s=1), many(), service)
    assert len(served.outcomes) == pytest.approx(10, abs=1)


def test_a_load_that_is_stopped_gives_up_what_runs_and_keeps_what_ended() -> None:
    for loop, its in [
        (Driver(2, closed=True, counted=100), many()),
        (Driver(None, closed=False), orders(*np.arange(100) / 2)),
    ]:
        service = Service(takes_s=1)
        served = drive(loop, its, service, stop_s=2.75)
        assert served.stopped and service.running == 0
        assert len(served.outcomes) == 4


def test_a_fault_in_the_program_is_no_outcome() -> None:
    class Broken(Service):
        async def complete(self, order: Order, due_ms: float) -> Outcome:
            raise ZeroDivisionError

    for closed in (True, False):
        with pytest.raises(ZeroDivisionError):
            drive(Driver(1, closed=closed), orders(0, 1), Broken())


def test_on_an_exact_clock_this_program_is_never_late() -> None:
    served = drive(Driver(1, closed=True, counted=2), many(), Service(takes_s=0.5))
    assert len(served.lag_ms) >= 90 and max(served.lag_ms) == pytest.approx(0, abs=1e-6)


def test_a_load_of_days_is_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_MOST_LAGS", 64)
    served = drive(Driver(1, closed=True, counted=10), many(), Service(takes_s=1))
    assert 32 <= len(served.lag_ms) < 64


LOAD = Load("chat", Lengths(20, 40), Lengths(3, 9), max_concurrency=2)


def test_prompts_of_no_two_requests_or_seeds_begin_alike() -> None:
    def prompts(seed: str) -> list[str]:
        its = islice(LOAD.orders(WordCount(5, 1), seed), 50)
        return [str(order.prompt.messages[0]["content"]) for order in its]

    assert prompts("1 a") == prompts("1 a")
    every = prompts("1 a") + prompts("1 b") + prompts("2 a")
    assert len({tuple(prompt.split()[:4]) for prompt in every}) == 150
    lengths = {len(prompt.splitlines()[0].split()) for prompt in every}
    assert min(lengths) >= 15 and max(lengths) <= 35 and len(lengths) > 10


def test_a_trace_says_when_and_how_long() -> None:
    trace = (TracedRequest(5, 30, 4), TracedRequest(1500, 8, 2))
    load = Load("chat", Lengths(1, 1), Lengths(1, 1), recorded=Recorded("t.csv", trace=trace))
    found = list(load.orders(WordCount(0, 1), "1"))
    assert [(order.at_s, order.max_tokens) for order in found] == [(0.005, 4), (1.5, 2)]
    assert [order.prompt.tokens for order in found] == [30, 8]
    assert (load.counted, load.is_closed, load.n_ctx, load.longest_prompt) == (2, False, 34, 30)
    assert load.label == "serve trace t.csv"
    assert load.settings == {"workload": "serve", "endpoint": "chat", "trace": "t.csv",
                             "requests": 2}  # fmt: skip


def test_prompts_of_a_file_are_asked_as_they_are_and_again_when_they_are_used_up(
    tmp_path: Path,
) -> None:
    path = tmp_path / "d.jsonl"
    lines = [{"prompt": "one", "max_tokens": 7}, {"messages": [{"role": "user", "content": "two"}]}]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    load = replace(LOAD, recorded=Recorded("d.jsonl", dataset=read_dataset(path)))
    found = list(islice(load.orders(WordCount(0, 1), "1"), 4))
    texts = [order.prompt.messages[0]["content"] for order in found]
    assert texts == ["one", "two", "one", "two"]
    assert found[0].max_tokens == 7 and 3 <= found[1].max_tokens <= 9
    assert (load.counted, load.longest_prompt) == (2, 0)
    assert load.label == "serve ×2 d.jsonl n3..9"
    assert found[0].prompt.content("completions") == {"prompt": "one"}


def test_a_load_makes_enough_requests_where_nothing_says_how_many() -> None:
    assert [replace(LOAD, max_concurrency=n).counted for n in (1, 4, 64)] == [16, 16, 256]
    assert replace(LOAD, duration_s=5.0).counted is None
    assert replace(LOAD, duration_s=5.0, requests=9).counted == 9
    with pytest.raises(UsageError, match="--concurrency 5000"):
        replace(LOAD, max_concurrency=5000)


def test_figures_tell_what_was_sent_and_answered() -> None:
    load = replace(LOAD, arrivals=Arrivals(2.0), goodput=Goodput.parse("e2el:100"))
    run = run_of(
        request([50, 90], prompt_tokens=20, cached_tokens=8, told_tokens=6),
        request([600, 700], submitted_ms=500, prompt_tokens=30),
        failed(submitted_ms=2000),
    )
    assert load.figures(run, 0) == pytest.approx({
        "prompt_tokens": 25, "answer_tokens": 4, "cached_tokens": 4, "tokens_per_event": 2,
        "sent_per_s": 1, "goodput_share": 1 / 3, "goodput_per_s": 1 / 2.001,
    })  # fmt: skip
    assert load.figures(run_of(failed()), 0) == {}
