"""The scheduler as Python sees it. Its guarantees are proved in tests/core/test_scheduler_*.cpp."""

from __future__ import annotations

import numpy as np
import pytest

from orin_llm import _native
from orin_llm.errors import PromptTooLong


def make(**settings: object) -> _native.Scheduler:
    return _native.Scheduler(**{"n_pages": 65, "max_tokens": 512, "chunk_size": 32, **settings})


def run_step(scheduler: _native.Scheduler, now_ms: float, token: int = 7) -> list[int]:
    batch = scheduler.plan(now_ms)
    return scheduler.finish_step([(token, False)] * len(batch.outputs))


def test_a_plan_can_be_read_as_data_and_as_a_line():
    scheduler = make()
    first = scheduler.submit(list(range(40)), max_tokens=5, now_ms=0.0)
    second = scheduler.submit([1, 2, 3], max_tokens=5, now_ms=1.0)
    scheduler.plan(2.0)
    assert scheduler.last_plan() == {
        "drop": [],
        "expire": [],
        "preempt": [],
        "admit": [first, second],
        "overtaken": [],
        "decode": [],
        "prefill": [(first, 29, False), (second, 3, True)],
        "stalls_decode": False,
    }
    assert scheduler.describe_plan() == "admit 1 2; prefill 1:29 2:3!"


def test_rows_say_which_token_goes_to_which_cell():
    scheduler = make(page_size=16)
    request = scheduler.submit(list(range(100, 120)), max_tokens=5, now_ms=0.0)
    batch = scheduler.plan(0.0)
    assert batch.rows["token"].tolist() == list(range(100, 120))
    assert batch.rows["position"].tolist() == list(range(20))
    (sequence,) = set(batch.rows["sequence"].tolist())
    pages = scheduler.kv.block_table(sequence)
    positions = np.arange(20)
    assert batch.rows["cell"].tolist() == (pages[positions // 16] * 16 + positions % 16).tolist()
    assert batch.rows["wants_logits"].tolist() == [False] * 19 + [True]
    assert batch.outputs == [(19, request)]
    assert batch.n_decode_rows == 0
    assert batch.copies == []


def test_a_request_ends_at_max_tokens_or_where_the_caller_says():
    scheduler = make()
    short = scheduler.submit([1, 2], max_tokens=2, now_ms=0.0)
    stopped = scheduler.submit([3, 4], max_tokens=50, now_ms=0.0)
    assert run_step(scheduler, 0.0) == []
    assert scheduler.tokens(short) == [1, 2, 7]
    assert scheduler.plan(1.0).n_decode_rows == 2
    assert scheduler.finish_step([(8, False), (9, True)]) == [short, stopped]
    assert scheduler.n_requests == 0
    assert scheduler.kv.counters()["used"] == 0
    with pytest.raises(IndexError, match="no request 1"):
        scheduler.tokens(short)


def test_a_request_that_can_never_fit_is_refused_with_the_limit_and_both_sizes():
    with pytest.raises(PromptTooLong, match=r"500 tokens.*max_tokens is 13.*at most 512 tokens"):
        make().submit([0] * 500, max_tokens=13, now_ms=0.0)
    with pytest.raises(PromptTooLong, match=r"60 tokens.*max_tokens is 5.*5 pages.*is 4 pages"):
        make(n_pages=5).submit([0] * 60, max_tokens=5, now_ms=0.0)
    make(n_pages=5).submit([0] * 60, max_tokens=4, now_ms=0.0)


def test_with_a_window_a_sequence_longer_than_the_pool_fits():
    prompt = [0] * 300
    scheduler = make(n_pages=6, window=32)  # the window and a chunk lie in 5 pages at most
    scheduler.submit(prompt, max_tokens=20, now_ms=0.0)
    steps = 0
    while scheduler.n_requests > 0:
        run_step(scheduler, float(steps))
        steps += 1
    assert steps == 10 + 19
    with pytest.raises(PromptTooLong, match="5 pages.*is 4 pages"):
        make(n_pages=5, window=32).submit(prompt, max_tokens=20, now_ms=0.0)


def test_no_more_requests_are_preempted_than_pages_are_short():
    # One page each, and all three need a second one in the fifth step, when one is left.
    scheduler = make(n_pages=5, page_size=16, chunk_size=16, headroom_pages=0)
    oldest, middle, youngest = (
        scheduler.submit([token] * n, max_tokens=30, now_ms=0.0)
        for token, n in ((1, 13), (2, 14), (3, 15))
    )
    for now_ms in range(4):
        run_step(scheduler, float(now_ms))
    scheduler.plan(5.0)
    assert scheduler.last_plan()["preempt"] == [youngest]
    assert scheduler.last_plan()["decode"] == [oldest, middle]


def test_cancelled_and_late_requests_leave_nothing_behind():
    scheduler = make()
    cancelled = scheduler.submit([1] * 20, max_tokens=50, now_ms=0.0)
    late = scheduler.submit([2] * 20, max_tokens=50, now_ms=0.0, deadline_ms=5.0)
    run_step(scheduler, 0.0)
    assert scheduler.cancel(cancelled)
    assert not scheduler.cancel(99)
    assert len(scheduler.plan(5.0).rows) == 0
    assert scheduler.describe_plan() == f"drop {cancelled}; expire {late}"
    counters = scheduler.counters()
    assert (counters["cancelled"], counters["expired"]) == (1, 1)
    assert scheduler.kv.counters()["used"] == 0


def test_a_priority_is_a_head_start():
    scheduler = make(max_batch=1, head_start_ms=10.0)
    scheduler.submit([1], max_tokens=1, now_ms=0.0)
    scheduler.submit([2], max_tokens=1, now_ms=9.0, priority=1)
    scheduler.submit([3], max_tokens=1, now_ms=11.0, priority=1)
    ended = [run_step(scheduler, 11.0) for _ in range(3)]
    assert ended == [[2], [1], [3]]


def test_prompts_that_come_together_share_what_the_first_one_computes():
    scheduler = make(chunk_size=64)
    prompt = list(range(60))
    for _ in range(4):
        scheduler.submit(prompt, max_tokens=2, now_ms=0.0)
    while scheduler.n_requests > 0:
        run_step(scheduler, 0.0)
    counters = scheduler.counters()
    # The first takes its share, the second the rest of the chunk; the others find three full pages.
    assert counters["tokens_prefilled"] + counters["prefix_tokens_reused"] == 4 * 60
    assert counters["prefix_tokens_reused"] >= 2 * 48


def test_calls_out_of_turn_are_refused():
    scheduler = make()
    scheduler.submit([1], max_tokens=2, now_ms=0.0)
    for call in (lambda: scheduler.finish_step([]), scheduler.fail_step):
        with pytest.raises(RuntimeError, match="no step is under way"):
            call()
    scheduler.plan(0.0)
    scheduler.plan(0.0)
    with pytest.raises(RuntimeError, match="two steps are under way"):
        scheduler.plan(0.0)
    with pytest.raises(ValueError, match="2 tokens for a step with 1 outputs"):
        scheduler.finish_step([(1, False), (2, False)])
    scheduler.fail_step()
    scheduler.fail_step()
    assert scheduler.counters()["failed_steps"] == 2


def test_a_step_that_is_planned_ahead_has_tokens_that_are_not_known():
    scheduler = make()
    request = scheduler.submit([1, 2], max_tokens=3, now_ms=0.0)
    last = scheduler.submit([3], max_tokens=1, now_ms=0.0)
    assert scheduler.plan(0.0).rows["token"].tolist() == [1, 2, 3]
    ahead = scheduler.plan(0.0)
    assert [(row["token"], row["position"]) for row in ahead.rows] == [(-1, 2)]
    assert scheduler.finish_step([(7, False), (8, False)]) == [last]
    assert scheduler.tokens(request) == [1, 2, 7]
    assert scheduler.finish_step([(9, True)]) == [request]
    assert scheduler.counters()["tokens_decoded"] == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"policy": "fast"}, "policy is 'fast': expected balanced, ttft or tpot"),
        ({"chunk_size": 0}, "chunk_size is 0: it must be at least 1"),
        ({"max_batch": 0}, "max_batch is 0"),
        ({"max_overtakes": -1}, "max_overtakes is -1"),
        ({"max_stall_steps": -1}, "max_stall_steps is -1"),
        ({"headroom_pages": -1}, "headroom_pages is -1"),
        ({"tpot_divisor": 0}, "tpot_divisor is 0"),
        ({"head_start_ms": float("nan")}, "head_start_ms"),
        ({"page_size": 12}, "page_size"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


@pytest.mark.parametrize(("prompt", "max_tokens"), [([], 1), ([1], 0)])
def test_a_request_for_nothing_is_refused(prompt, max_tokens):
    with pytest.raises(ValueError, match="at least"):
        make().submit(prompt, max_tokens=max_tokens, now_ms=0.0)
