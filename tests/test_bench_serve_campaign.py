"""Loads on a stub server: what is found out before, what is measured, what is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from models_support import Recorder
from stub_server import Stub, error_reply
from virtual_time import VirtualLoop

from orin_llm.bench.knee import sweeps
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.result import Result
from orin_llm.bench.serve import driver
from orin_llm.bench.serve.address import Address
from orin_llm.bench.serve.arrivals import Arrivals
from orin_llm.bench.serve.campaign import measure_server
from orin_llm.bench.serve.discovery import Found, find_server
from orin_llm.bench.serve.goodput import Goodput
from orin_llm.bench.serve.load import Load
from orin_llm.bench.serve.plan import ServeCampaign
from orin_llm.bench.serve.room import whole_memory
from orin_llm.bench.serve.session import Session
from orin_llm.bench.watch import Watch
from orin_llm.device.gpu import Gpu, Gpus
from orin_llm.device.stamp import read_stamp
from orin_llm.errors import OrinError, UsageError
from orin_llm.host.memory import Memory

LOAD = Load("chat", Lengths(40, 40), Lengths(5, 5), max_concurrency=1, requests=6)


@pytest.fixture(autouse=True)
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks often whether the program is late makes a clock that jumps take long."""
    monkeypatch.setattr(driver, "LAG_INTERVAL_S", 0.1)


@contextmanager
def serving(stub: Stub) -> Iterator[tuple[Session, str]]:
    """The stub and its clients in one loop, on a clock that is exact."""
    with Session(VirtualLoop()) as session:
        listening = stub.listening()
        url = session.call(listening.__aenter__())
        yield session, url
        session.call(listening.__aexit__(None, None, None))


def found(stub: Stub, *loads: Load, told: Recorder | None = None, **settings: Any) -> Found:
    with serving(stub) as (session, url):
        campaign = ServeCampaign(Address.parse(url), loads or (LOAD,), **settings)
        return find_server(campaign, session, told or Recorder())


def measured(
    stub: Stub, *loads: Load, told: Recorder | None = None, allows: Any = None, **settings: Any
) -> list[Result]:
    with serving(stub) as (session, url):
        campaign = ServeCampaign(Address.parse(url), loads, seed=4, **settings)
        report = told or Recorder()
        server = find_server(campaign, session, report)
        watch = Watch(read_stamp())
        reports = measure_server(campaign, session, server, {}, report, watch, allows)
        return [result for report in reports for result in report.results]


def test_a_closed_loop_is_measured_exactly() -> None:
    """Each of two users: 200 ms to the first token, then four gaps of 50 ms."""
    (result,) = measured(Stub(first_ms=200, gap_ms=50), replace(LOAD, max_concurrency=2))
    means = {name: found.mean for name, found in result.latency.items() if found}
    assert means == pytest.approx(
        {"ttft_ms": 200, "tpot_ms": 50, "itl_ms": 50, "e2el_ms": 400, "connect_ms": 0,
         "client_lag_ms": 0}, abs=1e-6
    )  # fmt: skip
    figures = {name: spread.median for name, spread in result.figures.items()}
    assert figures["requests_per_s"] == pytest.approx(6 / 1.2)
    assert figures["output_tokens_per_s"] == pytest.approx(30 / 1.2)
    assert figures["prompt_tokens"] == pytest.approx(40, abs=1)  # two tokens a word
    assert (result.completed, result.failed, result.peak_concurrency) == (6, 0, 2)
    assert result.label == "serve ×2 p40 n5"


def test_percentiles_over_requests_are_those_of_numpy() -> None:
    """Requests that come at once wait for one slot: TTFT is 100, 200, … ms."""
    load = replace(LOAD, max_concurrency=7, requests=7, answer=Lengths(1, 1))
    (result,) = measured(Stub(first_ms=100, slots=1), load, warmup=0)
    ttft = result.latency["ttft_ms"]
    waits = 100 * np.arange(1, 8)
    assert ttft is not None
    assert [ttft.p50, ttft.p90, ttft.p95, ttft.p99] == pytest.approx(
        np.percentile(waits, [50, 90, 95, 99]).tolist()
    )
    assert (ttft.mean, ttft.std) == (pytest.approx(waits.mean()), pytest.approx(waits.std()))


def test_an_open_loop_keeps_its_rate_when_the_server_does_not() -> None:
    """Four a second on a server that takes a second each: the last one waits longest."""
    load = replace(LOAD, max_concurrency=None, arrivals=Arrivals(4, None), answer=Lengths(1, 1),
                   goodput=Goodput.parse("ttft:2000"))  # fmt: skip
    (result,) = measured(Stub(first_ms=1000, slots=1), load, warmup=0)
    figures = {name: spread.median for name, spread in result.figures.items()}
    assert figures["sent_per_s"] == pytest.approx(4)
    assert figures["requests_per_s"] == pytest.approx(1)
    waits = [1000 * (n + 1) - 250 * n for n in range(6)]
    ttft = result.latency["ttft_ms"]
    assert ttft is not None and ttft.mean == pytest.approx(np.mean(waits))
    assert figures["goodput_share"] == pytest.approx(sum(w <= 2000 for w in waits) / 6)
    late = result.latency["late_ms"]
    assert late is not None and late.count == 6 and late.p99 == pytest.approx(0, abs=1e-6)


def test_a_sweep_finds_the_slots_of_a_server_beside_what_memory_allows() -> None:
    loads = [replace(LOAD, max_concurrency=n, requests=None) for n in (1, 2, 4, 8, 16)]
    results = measured(Stub(first_ms=100, gap_ms=20, slots=4), *loads, allows={45: 11})
    (sweep,) = sweeps(results)
    assert sweep.knee is not None and sweep.knee.point.load == 4
    assert sweep.text == "the knee is at 4 requests at once; memory allows 11 requests at once"


def test_a_sweep_of_rates_finds_its_knee_too() -> None:
    loads = [replace(LOAD, max_concurrency=None, arrivals=Arrivals(r, None), requests=12)
             for r in (1.0, 2.0, 4.0, 8.0)]  # fmt: skip
    (sweep,) = sweeps(measured(Stub(first_ms=150, gap_ms=25, slots=1), *loads))
    assert sweep.load_name == "rate_per_s" and sweep.knee is not None
    assert sweep.knee.point.load == 4 and "4 requests per second" in sweep.text


def test_repetitions_ask_other_prompts_and_warm_up_counts_nowhere() -> None:
    stub = Stub()
    (result,) = measured(stub, LOAD, repetitions=3, warmup=4)
    assert (result.completed, result.repetitions, result.warmup) == (18, 3, 4)
    asked = stub.completions()
    assert len(asked) == 3 + 3 * (4 + 6)  # to find out, then each repetition
    assert len({request.prompt for request in asked}) == len(asked)


def test_what_fails_is_counted_by_kind_and_the_rest_is_measured() -> None:
    stub = Stub(first_ms=100)
    calls = 0

    async def sometimes(asked: Any, writer: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 3 and calls % 2:
            writer.write(error_reply(429, "slow down"))
        else:
            await stub._answer(asked, writer)

    stub.fault = sometimes
    (result,) = measured(stub, LOAD, warmup=0)
    assert (result.completed, result.failed, result.failures) == (3, 3, {"HTTP 429": 3})
    assert result.errors == ("HTTP 429: 'slow down'",)
    ttft = result.latency["ttft_ms"]
    assert ttft is not None and (ttft.count, ttft.mean) == (3, pytest.approx(100))


def test_where_all_fail_there_are_no_figures_and_no_error() -> None:
    stub = Stub()
    told = Recorder()
    with serving(stub) as (session, url):
        campaign = ServeCampaign(Address.parse(url), (LOAD,))
        server = find_server(campaign, session, told)
        stub.key = "changed"
        reports = list(measure_server(campaign, session, server, {}, told, Watch(read_stamp())))
    (result,) = reports[0].results
    assert (result.completed, result.failed, result.figures) == (0, 6, {})
    assert all(found is None for name, found in result.latency.items() if name != "client_lag_ms")


def test_a_model_is_chosen_and_more_than_one_is_told() -> None:
    told = Recorder()
    assert found(Stub(models=["a", "b"]), told=told).client.model == "a"
    assert told.messages == ["2 models are there: a is asked (--model)"]
    assert found(Stub(models=["a", "b"]), model="b").client.model == "b"
    assert found(Stub(models=None), model="c").client.model == "c"


@pytest.mark.parametrize(
    ("stub", "message"),
    [
        (Stub(models=None), r"does not say which models it has: name one \(--model\)"),
        (Stub(models=[]), r"name one \(--model\)"),
        (Stub(key="secret"), r"HTTP 401: 'invalid api key' \(--api-key"),
        (Stub(fault=None, refuses=("messages",)), "HTTP 400: 'unknown field messages'"),
    ],
)
def test_a_server_that_cannot_be_asked_is_an_error_that_says_what_to_do(
    stub: Stub, message: str
) -> None:
    with pytest.raises(OrinError, match=message):
        found(stub)


def test_how_words_are_counted_is_learned_from_the_server() -> None:
    """The stub's template has 11 tokens, and every word has two."""
    for its in (found(Stub()), found(Stub(usage=False))):
        assert its.count.per_word == pytest.approx(2)
        assert its.count.tokens(its.count.words(500)) == pytest.approx(500, abs=1)


def test_what_a_server_does_not_do_is_said_before_it_is_measured() -> None:
    told = Recorder()
    its = found(Stub(usage=False, counts=False, refuses=("ignore_eos",)), told=told)
    assert told.messages == [
        "the server knows no ignore_eos: answers may be shorter than asked for",
        "the server does not tell how many tokens an answer has: events are counted",
        "the server does not tell how many tokens a prompt has: words are counted",
    ]
    assert (its.settings["ignores_eos"], its.settings["tells_usage"]) == (False, False)
    assert found(Stub()).settings["tells_usage"]


def test_answers_that_the_model_ended_are_told() -> None:
    told = Recorder()
    (result,) = measured(Stub(most_tokens=3), LOAD, told=told)
    assert result.figures["answer_tokens"].mean == 3
    assert "6 of 6 answers were ended by the model" in told.messages[-1]


def test_memory_for_a_server_is_all_that_its_machine_has() -> None:
    memory = Memory(64 << 30, 1 << 30, 0, 0, None, False)
    orin, own = Gpu("Orin GPU", "8.7", True), Gpu("RTX", "8.9", False, 24 << 30, 1 << 30)
    assert whole_memory(Gpus(()), memory).bytes == 64 << 30
    assert whole_memory(Gpus((orin,)), memory).bytes == 64 << 30
    assert whole_memory(Gpus((own,)), memory).bytes == 24 << 30


def test_progress_counts_requests_up_to_all_of_them() -> None:
    told = Recorder()
    measured(Stub(), LOAD, told=told)
    assert [step.done for step in told.steps] == [1, 2, 3, 4, 5, 6]
    assert {(step.step, step.total, step.unit) for step in told.steps} == {
        ("serve ×1 p40 n5, 1/1", 6, "requests")
    }


def test_a_program_that_wakes_up_late_says_so() -> None:
    """The clock jumps on while the stub answers, as if the processor had been away."""
    stub = Stub()
    told = Recorder()

    async def away(asked: Any, writer: Any) -> None:
        loop = asyncio.get_running_loop()
        loop._virtual.now_s += 0.5  # type: ignore[attr-defined]
        await stub._answer(asked, writer)

    stub.fault = away
    measured(stub, LOAD, told=told)
    assert any("woke up" in message and "too late" in message for message in told.messages)


def test_impossible_campaigns_are_refused() -> None:
    for wrong in ({"repetitions": 0}, {"warmup": -1}):
        with pytest.raises(UsageError):
            ServeCampaign(Address.parse("x"), (LOAD,), **wrong)
