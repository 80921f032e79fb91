"""Days of watching, simulated: what is remembered does not grow."""

from __future__ import annotations

import gc
import tracemalloc

from monitor_support import answer, engine, line, snapshot

from orin_llm.monitor.snapshot import Snapshot
from orin_llm.monitor.thresholds import Thresholds
from orin_llm.monitor.watch import Watch

SNAPSHOTS = 4000  # more than 5 hours at an interval of 5 s
MAX_GROWTH_BYTES = 20_000  # less than six bytes for each


def busy(number: int) -> Snapshot:
    """An engine that stays, one that changes every ten snapshots, alerts that come and go."""
    answers = [
        answer(n, ttft_ms=900 if number // 50 % 2 else 100) for n in range(number, number + 16)
    ]
    stays = line(
        number, decoded=30 * number, steps=number, answers=answers, kv=(number % 100, 0, 5)
    )
    comes = line(number, decoded=number % 10, answers=answers[:2], kv=(99, 0, 1))
    return snapshot(
        number,
        engine(stays),
        engine(comes, f"{number // 10 + 100}-0", number // 10 + 100),
        temperatures_c={"tj": 90.0 if number // 7 % 2 else 60.0},
        power_w=40.0 if number // 20 % 2 else 10.0,
        throttled=("gpu",) if number % 60 == 0 else (),
        over_current_events=number // 500,
    )


def test_memory_stays_flat_over_thousands_of_snapshots() -> None:
    watch = Watch(Thresholds())
    rules = set()

    def follow(numbers: range) -> int:
        for number in numbers:
            rules.update(event.alert.rule for event in watch.update(busy(number)).events)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = follow(range(500))
        after = follow(range(500, 500 + SNAPSHOTS))
    finally:
        tracemalloc.stop()
    assert after - before < MAX_GROWTH_BYTES
    assert rules == {"temperature_c", "power_w", "kv_used", "ttft_ms", "throttled", "over_current"}
