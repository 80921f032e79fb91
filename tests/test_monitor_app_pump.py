"""The thread that reads a feed for the live view: order, pauses, ends, errors, recordings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_view import PC, START_MS, GatedFeed, ListFeed, snapshots
from stats_support import until

from orin_llm.cli.live.pump import Pump, gap_s
from orin_llm.cli.live.story import Story
from orin_llm.device.reading import Reading
from orin_llm.errors import OrinError
from orin_llm.monitor.recording import Recorder, Replay
from orin_llm.monitor.snapshot import EngineSample, Snapshot
from orin_llm.monitor.state import State
from orin_llm.monitor.thresholds import default_thresholds
from orin_llm.monitor.watch import Watch


def pump_of(
    feed: ListFeed, speed: float | None = 1e9, recorder: Recorder | None = None
) -> tuple[Pump, threading.Semaphore]:
    told = threading.Semaphore(0)
    watch = Watch(default_thresholds(30.0))
    return Pump(feed, watch, recorder, speed, told.release), told


@pytest.fixture
def stop() -> Iterator[list[Pump]]:
    """Pumps to be stopped after the test."""
    pumps: list[Pump] = []
    yield pumps
    for pump in pumps:
        pump.stop()


def end_of(pump: Pump) -> None:
    pump.start()
    until(lambda: pump.is_over or pump.error is not None, "the end")


def test_every_snapshot_is_seen_once_and_in_order(stop: list[Pump]) -> None:
    pump, told = pump_of(ListFeed(snapshots(5, gpu_percent=40.0)))
    stop.append(pump)
    end_of(pump)
    with pump.story() as story:
        assert story.state is not None
        assert story.state.snapshot.at_ms == START_MS + 4000
        assert story.state.problems == {"jtop": "not active"}
        assert story.history.columns("gpu", 200) == [0.4] * 5
    until(lambda: told.acquire(blocking=False), "a word")


def test_an_error_ends_it_and_is_kept(stop: list[Pump]) -> None:
    error = OrinError("line 3 is none")
    pump, told = pump_of(ListFeed([*snapshots(2), error, *snapshots(1)]))
    stop.append(pump)
    end_of(pump)
    assert pump.error is error
    assert not pump.is_over
    for _ in range(3):
        assert told.acquire(timeout=60)


def test_a_pause_holds_a_replay_until_it_goes_on(stop: list[Pump]) -> None:
    feed = ListFeed(snapshots(50))
    pump, _ = pump_of(feed)
    stop.append(pump)
    pump.hold(True)
    pump.start()
    until(lambda: feed.taken == 2, "the snapshot that waits")
    with pump.story() as story:
        assert story.state is not None
        assert story.state.snapshot.at_ms == START_MS
    pump.hold(False)
    until(lambda: pump.is_over, "the end")


def test_a_replay_waits_as_long_as_the_recording_did_at_its_speed() -> None:
    first, second, much_later = (Snapshot(START_MS + s * 1e3, Reading(0)) for s in (0, 2, 3600))
    assert gap_s(first, second, interval_s=1, speed=1) == 2
    assert gap_s(first, second, interval_s=1, speed=4) == 0.5
    assert gap_s(first, much_later, interval_s=2, speed=4) == 5
    assert gap_s(second, first, interval_s=1, speed=1) == 0


def test_a_slow_sensor_holds_up_neither_the_story_nor_the_end() -> None:
    feed = GatedFeed(snapshots(3))
    pump, told = pump_of(feed, speed=None)
    pump.start()
    feed.gate.release()
    assert told.acquire(timeout=60)
    feed.asked.acquire()
    feed.asked.acquire()  # the second one is under way, and does not come
    with pump.story() as story:
        assert story.state is not None
    pump.stop()
    feed.gate.release()


def test_what_is_live_is_recorded_and_can_be_replayed(tmp_path: Path, stop: list[Pump]) -> None:
    path = tmp_path / "recording.jsonl"
    recorder = Recorder(path, PC, 0.001)
    pump, _ = pump_of(ListFeed(snapshots(4), PC, 0.001), speed=None, recorder=recorder)
    stop.append(pump)
    end_of(pump)
    recorder.close()
    replay = Replay(path)
    assert [replay.next() for _ in range(4)] == snapshots(4)
    assert replay.problems == {"jtop": "not active"}
    assert replay.next() is None


def test_a_recording_that_cannot_go_on_is_a_problem_that_is_seen(
    stop: list[Pump], tmp_path: Path
) -> None:
    recorder = Recorder(tmp_path / "a.jsonl", PC, 1.0)
    recorder.problem = "the disk is full"
    pump, _ = pump_of(ListFeed(snapshots(1)), recorder=recorder)
    stop.append(pump)
    end_of(pump)
    with pump.story() as story:
        assert story.state is not None
        assert story.state.problems == {"jtop": "not active", "record": "the disk is full"}


def test_a_story_stands_however_deep_an_engine_s_statistics_are() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    story = Story(1.0)
    story.add(State(Snapshot(START_MS, Reading(0), (EngineSample("7-0", 7, "a", {"d": deep}),))))
    standing = story.standing()
    story.add(State(Snapshot(START_MS + 1e3, Reading(1e3, cpu_percent=5.0))))
    assert standing.state is not None and standing.state.snapshot.at_ms == START_MS
    assert standing.seen == set() and "cpu" in story.seen
    assert len(standing.history.columns("cpu", 120)) == 1
    assert len(story.history.columns("cpu", 120)) == 2
