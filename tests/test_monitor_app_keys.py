"""The live view as an app: keys, sizes, pauses, ends. Its feed and its states are real."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from live_view import BUSY, ORIN, START_MS, GatedFeed, ListFeed, row_of, snapshots
from textual.pilot import Pilot

from orin_llm.cli.live.app import MonitorApp
from orin_llm.cli.live.frame import Playing
from orin_llm.cli.live.glyphs import BLOCKS
from orin_llm.cli.live.layout import Scene
from orin_llm.cli.live.lines import Lines
from orin_llm.cli.live.pump import Pump
from orin_llm.device.reading import Reading
from orin_llm.errors import OrinError
from orin_llm.monitor.snapshot import EngineSample, Snapshot
from orin_llm.monitor.thresholds import default_thresholds
from orin_llm.monitor.watch import Watch

Act = Callable[[Pilot[int], MonitorApp], Awaitable[None]]


def sample(pid: int) -> EngineSample:
    statistics = {"requests": {"running": pid, "waiting": 0}, "lanes": {"running": 1, "max": 99}}
    return EngineSample(f"{pid}-0", pid, f"/models/model-{pid}.gguf", statistics)


def busy(count: int = 1, *pids: int) -> list[Snapshot]:
    engines = tuple(sample(pid) for pid in pids)
    return [
        Snapshot(START_MS + n * 1e3, Reading(n * 1e3, **BUSY | {"gpu_percent": float(n)}), engines)
        for n in range(count)
    ]


def play(
    feed: ListFeed,
    act: Act,
    *,
    size: tuple[int, int] = (80, 24),
    speed: float | None = 1e9,
) -> MonitorApp:
    """Run the app on a feed, and act on it; it has ended when this returns."""
    thresholds = default_thresholds(30.0)

    def make_pump(notify: Callable[[], None]) -> Pump:
        return Pump(feed, Watch(thresholds), None, speed, notify)

    app = MonitorApp(Scene(ORIN, thresholds, BLOCKS), make_pump, Playing(speed))

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await act(pilot, app)

    try:
        asyncio.run(run())
    finally:
        app.pump.stop()
    return app


def text(app: MonitorApp, part: str = "#body") -> str:
    return app.query_one(part, Lines).text


async def until(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError(text(pilot.app))  # type: ignore[arg-type]


async def at_the_end(pilot: Pilot[int], app: MonitorApp) -> None:
    await until(pilot, lambda: "ended" in text(app, "#header"))


def test_a_replay_shows_its_last_state_and_stays_until_q() -> None:
    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        await at_the_end(pilot, app)
        assert "4 %" in row_of(text(app), "GPU")
        assert "p pause" not in text(app, "#footer")
        await pilot.press("q")

    assert play(ListFeed(busy(5, 7)), act).return_value == 0


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("ctrl+q", 0), ("ctrl+c", 130)])
def test_keys_that_end_it_have_their_exit_codes(key: str, code: int) -> None:
    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        await at_the_end(pilot, app)
        await pilot.press(key)

    assert play(ListFeed(busy()), act).return_value == code


def test_it_can_be_ended_from_outside() -> None:
    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        await at_the_end(pilot, app)
        app.end(143)
        await until(pilot, lambda: app.return_value is not None)

    app = play(ListFeed(busy()), act)
    assert app.return_value == 143
    app.end(130)  # too late, and no error


def test_keys_work_while_a_sensor_does_not_answer() -> None:
    feed = GatedFeed(busy(2, 7, 8))

    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        await until(pilot, lambda: "waiting for the first reading" in text(app))
        feed.gate.release()
        await until(pilot, lambda: "Engine 1 of 2" in text(app))
        await pilot.press("tab")
        await until(pilot, lambda: "Engine 2 of 2" in text(app))
        await pilot.press("q")

    assert play(feed, act, speed=None).return_value == 0
    feed.gate.release()


@pytest.mark.parametrize(
    ("keys", "pid"),
    [(["tab"], 8), (["down"], 8), (["down", "up"], 7), (["up"], 9), (["shift+tab"], 9)],
)
def test_keys_choose_the_engine(keys: list[str], pid: int) -> None:
    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        await at_the_end(pilot, app)
        await pilot.press(*keys)
        await until(pilot, lambda: f"model-{pid}.gguf pid {pid}" in text(app))
        assert f"{pid} of 99" in row_of(text(app), "Batch")

    play(ListFeed(busy(1, 7, 8, 9)), act)


def test_the_chosen_engine_stays_while_others_come_and_go() -> None:
    feed = GatedFeed([*busy(1, 7, 8), *busy(1, 8, 9), *busy(1, 9)])

    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        feed.gate.release()
        await until(pilot, lambda: "Engine 1 of 2 model-7.gguf" in text(app))
        await pilot.press("tab")
        await until(pilot, lambda: "Engine 2 of 2 model-8.gguf" in text(app))
        feed.gate.release()
        await until(pilot, lambda: "Engine 1 of 2 model-8.gguf" in text(app))
        feed.gate.release()
        await until(pilot, lambda: "Engine model-9.gguf" in text(app))
        feed.gate.release()

    play(feed, act)


@pytest.mark.parametrize("key", ["p", "space"])
def test_a_pause_stops_a_replay(key: str) -> None:
    feed = GatedFeed(busy(3))

    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        feed.gate.release()
        await until(pilot, lambda: "0 %" in text(app))
        await pilot.press(key)
        await until(pilot, lambda: "PAUSED" in text(app, "#header"))
        feed.gate.release(9)
        await pilot.pause(0.3)
        assert feed.taken == 2
        await pilot.press(key)
        await at_the_end(pilot, app)
        assert "2 %" in row_of(text(app), "GPU")

    play(feed, act)


def test_a_pause_lets_the_picture_of_the_machine_stand_while_it_goes_on() -> None:
    feed = ListFeed(busy(60), interval_s=0.01)
    standing = ""

    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        nonlocal standing
        await pilot.press("p")
        await until(pilot, lambda: "PAUSED" in text(app, "#header"))
        standing = text(app)
        await until(pilot, lambda: app.pump.is_over)
        await pilot.resize_terminal(81, 24)
        await pilot.resize_terminal(80, 24)
        await pilot.pause(0.3)
        assert text(app) == standing
        await pilot.press("p")
        await until(pilot, lambda: "59 %" in text(app))

    play(feed, act, speed=None)


def test_the_picture_follows_the_size_of_the_terminal() -> None:
    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        await at_the_end(pilot, app)
        assert "╭─ GPU" not in text(app)
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: "╭─ GPU" in text(app))
        await pilot.resize_terminal(60, 16)
        await until(pilot, lambda: {len(line) for line in text(app).split("\n")} == {60})
        assert app.query_one("#header", Lines).size == (60, 1)
        assert app.query_one("#body", Lines).size == (60, 14)

    play(ListFeed(busy(1, 7)), act)


def test_what_does_not_fit_can_be_scrolled_to() -> None:
    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        await at_the_end(pilot, app)
        body = app.query_one("#body", Lines)
        lines = len(text(app).split("\n"))
        assert f"PgDn {lines - 5} more lines" in text(app, "#footer")
        await pilot.press("pagedown")
        await until(pilot, lambda: f"PgDn {lines - 9} more lines" in text(app, "#footer"))
        await pilot.pause()
        assert body.render_line(0).text == text(app).split("\n")[4]
        await pilot.press("pagedown", "pagedown")
        await until(pilot, lambda: "PgDn" not in text(app, "#footer"))
        await pilot.press("up")
        await until(pilot, lambda: "PgDn 1 more" in text(app, "#footer"))
        await pilot.press("pageup", "pageup", "pageup")
        await until(pilot, lambda: body.hidden_lines == lines - 5)

    play(ListFeed(busy(1, 7)), act, size=(60, 7))


def test_help_comes_and_goes() -> None:
    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        await at_the_end(pilot, app)
        await pilot.press("question_mark")
        await until(pilot, lambda: "next or previous engine" in text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "GPU" in text(app))

    play(ListFeed(busy()), act)


def test_an_error_of_the_feed_ends_the_view() -> None:
    error = OrinError("line 7, is no snapshot")
    feed = GatedFeed([*busy(), error])

    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        feed.gate.release(2)
        await until(pilot, lambda: app.return_value is not None)

    app = play(feed, act)
    assert app.return_value == 1
    assert app.error is error


def test_only_lines_that_change_are_drawn_again() -> None:
    drawn: list[Any] = []
    feed = GatedFeed([*snapshots(1, gpu_percent=5.0), *snapshots(1, gpu_percent=90.0)])

    async def act(pilot: Pilot[int], app: MonitorApp) -> None:
        feed.gate.release()
        await until(pilot, lambda: "5 %" in text(app))
        body = app.query_one("#body", Lines)
        before = text(app).split("\n")
        refresh = body.refresh
        body.refresh = lambda *areas, **more: (drawn.extend(areas), refresh(*areas, **more))[1]  # type: ignore[method-assign, func-returns-value, assignment]
        feed.gate.release()
        await until(pilot, lambda: "90 %" in text(app))
        after = text(app).split("\n")
        changed = [n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        assert {area.y for area in drawn} >= set(changed)
        assert len(drawn) < len(after) / 2
        feed.gate.release()

    play(feed, act, size=(60, 16))
