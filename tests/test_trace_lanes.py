"""From records to a trace: what is in which lane, and that readers can show it."""

from __future__ import annotations

import io
import json
from itertools import accumulate

import pytest
from bench_support import MiB, request, run_of, step
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_event_format import check_events, slices

from orin_llm.bench.records import Run
from orin_llm.device.reading import Reading
from orin_llm.engine import StepRecord
from orin_llm.trace import lanes as lanes_module
from orin_llm.trace import request_lanes
from orin_llm.trace.events import write_trace
from orin_llm.trace.lanes import lanes
from orin_llm.trace.parts import BETWEEN, HAND_OUT, PREPARE, gaps, take_apart


def exact(
    number: int, started_ms: float, *parts: float, prompt: int = 0, **more: int
) -> StepRecord:
    """A step that prepares, computes, samples and hands out for so many ms."""
    prepare, compute, sampling, publish = parts
    return StepRecord(
        number, started_ms, prepare + compute + sampling + publish, compute, sampling, prompt, 1,
        16 * number, number * MiB, 2 * number * MiB, publish_ms=publish, **more,
    )  # fmt: skip


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Steps one after another, some of them started ahead; requests at any time among them."""
    times = st.floats(0, 50, allow_subnormal=False)
    steps, at = [], draw(st.floats(1e6, 2e6))
    for number in range(1, draw(st.integers(0, 12)) + 1):
        at += draw(times) * draw(st.booleans())
        one = exact(number, at, *(draw(times) for _ in range(4)), prompt=draw(st.integers(0, 3)))
        if steps and draw(st.booleans()):  # computed since the one before was collected
            ahead = one.compute_ms + min(one.started_ms - take_apart(steps[-1]).sampling[1], 30.0)
            one = StepRecord(**{**one.__dict__, "compute_ms": max(ahead, 0.0)})
        steps.append(one)
        at = take_apart(one).whole[1]
    requests = []
    for _ in range(draw(st.integers(0, 6))):
        submitted = 1e6 + draw(st.floats(0, 1e6))
        gaps_ms = draw(st.lists(st.floats(0, 100), max_size=5))
        tokens = list(accumulate(gaps_ms, initial=submitted))[1:]
        end = (tokens[-1] if tokens else submitted) + draw(times)
        queue = draw(st.none() | times)
        requests.append(request(tokens, submitted_ms=submitted, finished_ms=end, queue_ms=queue))
    readings = tuple(
        Reading(1e6 + 100 * i, power_w=draw(times)) for i in range(draw(st.integers(0, 3)))
    )
    return Run(tuple(requests), tuple(steps), None, readings)


@given(runs())
@settings(max_examples=150)
def test_any_run_is_a_trace_that_readers_can_show(run: Run) -> None:
    events = list(lanes(run).events)
    check_events(events)
    file = io.StringIO()
    assert write_trace(file, events, {}) == len(events)
    assert json.loads(file.getvalue())["traceEvents"] == events


def test_steps_are_taken_apart_in_the_order_of_their_parts() -> None:
    run = run_of(
        request([15.0, 27.0], queue_ms=0.0),
        steps=[exact(1, 0, 2, 9, 3, 1, prompt=40), exact(2, 15, 1, 8, 2, 1)],
    )
    events = list(lanes(run).events)

    def found(lane: str) -> list[tuple[str, float, float]]:
        """To a nanosecond or two, which slices end early."""
        return [
            (e["name"], round(e["ts"] / 1e3, 3), round(e["dur"] / 1e3, 3))
            for e in slices(events, lane)
        ]

    assert found("prefill chunks") == [("prefill", 0, 15)]
    assert found("decode steps") == [("decode", 15, 12)]
    assert found("computation") == [("prefill", 2, 9), ("decode", 16, 8)]
    assert found("sampling") == [("sampling", 11, 3), ("sampling", 24, 2)]
    assert found("host gaps") == [
        (PREPARE, 0, 2), (HAND_OUT, 14, 1), (PREPARE, 15, 1), (HAND_OUT, 26, 1)
    ]  # fmt: skip
    assert found("request lane 1") == [
        ("stream 1", 0, 27), ("prefill", 0, 15), ("decode", 15, 12)
    ]  # fmt: skip


def test_what_is_computed_while_the_host_hands_out_leaves_no_gap() -> None:
    first = exact(1, 0, 1, 10, 0, 2, prompt=8)
    ahead = StepRecord(2, 13.0, 9.0, 10.5, 0.0, 0, 1, 0, 0, 0, publish_ms=0.5)  # from 11.0 to 21.5
    found = list(gaps([first, ahead], [request([13.0, 22.0])]))
    assert [(gap.kind, gap.start_ms, gap.end_ms) for gap in found] == [
        (PREPARE, 0, 1), (HAND_OUT, 21.5, 22.0)
    ]  # fmt: skip


def test_time_without_requests_is_no_gap() -> None:
    steps = [exact(1, 0, 0, 10, 0, 0, prompt=8), exact(2, 100, 0, 10, 0, 0, prompt=8)]
    requests = [request([10.0]), request([110.0], submitted_ms=95.0)]
    assert [(gap.kind, gap.duration_ms) for gap in gaps(steps, requests)] == [(BETWEEN, 5)]
    assert [gap.duration_ms for gap in gaps(steps, [request([10.0, 110.0])])] == [90]


def test_requests_that_follow_one_another_share_a_lane_and_others_do_not() -> None:
    run = run_of(
        request([10.0]), request([30.0], submitted_ms=5.0), request([20.0], submitted_ms=10.0)
    )
    events = list(lanes(run).events)
    assert [e["name"] for e in slices(events, "request lane 1") if e["ph"] == "X"][::2] == [
        "stream 1", "stream 3"
    ]  # fmt: skip
    assert slices(events, "request lane 2")[0]["name"] == "stream 2"
    assert not slices(events, "request lane 3")


def test_page_events_are_at_the_step_that_they_were_for() -> None:
    first = exact(1, 0, 0, 5, 0, 0, prompt=8, kv_lookups=3, kv_misses=2)
    second = exact(2, 5, 0, 5, 0, 0, kv_lookups=3, kv_evictions=4, preemptions=1)
    events = slices(list(lanes(run_of(steps=[first, second])).events), "page events")
    assert [(e["name"], e["ts"] / 1e3, e["args"]["count"]) for e in events] == [
        ("pages taken", 0, 2), ("pages evicted", 5, 4), ("preempted", 5, 1)
    ]  # fmt: skip


def test_tokens_in_a_step_are_none_in_a_pause() -> None:
    steps = [exact(1, 0, 0, 5, 0, 0, prompt=8), exact(2, 5.5, 0, 4, 0, 0), exact(3, 20, 0, 5, 0, 0)]
    events = lanes(run_of(steps=steps)).events
    assert [
        (e["ts"] / 1e3, *e["args"].values()) for e in events if e["name"] == "tokens in a step"
    ] == [(0, 8, 1), (5.5, 0, 1), (9.5, 0, 0), (20, 0, 1), (25, 0, 0)]


def test_sensors_are_counters_and_what_is_not_read_is_absent() -> None:
    readings = (
        Reading(100.0, power_w=31.5, emc_percent=40.0, ram_used_bytes=3 * MiB, throttled=("gpu",)),
        Reading(200.0, emc_percent=50.0, throttled=("gpu",)),
        Reading(300.0, rails_w={"VDD_GPU_SOC": 9.0}, throttled=()),
    )
    events = list(lanes(Run((), (), None, readings)).events)
    found = [(e["name"], e["ts"] / 1e3, e["args"]) for e in events if e["ph"] == "C"]
    assert found == [
        ("power (W)", 0, {"total": 31.5}),
        ("EMC (%)", 0, {"load": 40.0}),
        ("memory (MiB)", 0, {"used": 3.0}),
        ("EMC (%)", 100, {"load": 50.0}),
        ("rails (W)", 200, {"VDD_GPU_SOC": 9.0}),
    ]
    assert [e["name"] for e in slices(events, "throttling")] == ["throttled: gpu"]


def test_a_long_run_is_bounded_and_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "MAX_STEPS", 10)
    monkeypatch.setattr(lanes_module, "MAX_READINGS", 7)
    monkeypatch.setattr(request_lanes, "MAX_REQUEST_LANES", 2)
    steps = [step(i + 1, 10.0 * i, 10.0, prompt=8 if i < 5 else 0) for i in range(45)]
    readings = tuple(Reading(10.0 * i, power_w=1.0) for i in range(20))
    shown = lanes(Run((request([9.0]),) * 5, tuple(steps), None, readings))
    events = list(shown.events)
    check_events(events)
    decode = slices(events, "decode steps")
    assert [e["args"]["steps"] for e in slices(events, "prefill chunks")] == [5]
    assert [e["args"]["steps"] for e in decode] == [5] * 8
    assert sum(e["args"]["decode_tokens"] for e in decode) == 40
    assert decode[-1]["ts"] + decode[-1]["dur"] == pytest.approx(450_000)
    assert sum(e["name"] == "power (W)" for e in events) == 7
    assert len(shown.left_out) == 3 and "3 requests" in shown.left_out[0]


def test_requests_are_bounded_in_all_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_lanes, "MAX_REQUESTS", 3)
    requests = [request([10.0 * i + 5], submitted_ms=10.0 * i) for i in range(5)]
    shown = lanes(run_of(*requests))
    assert [e["name"] for e in slices(list(shown.events), "request lane 1")][::2] == [
        "stream 1", "stream 2", "stream 3"
    ]  # fmt: skip
    assert shown.left_out[0].startswith("2 requests beyond")
