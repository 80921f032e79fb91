"""`orin-llm monitor`: the machine and its engines over time, for people, logs and programs."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from orin_llm.cli.errors import INTERRUPTED
from orin_llm.cli.json_output import print_json
from orin_llm.cli.monitor_options import (
    AlertOptions,
    ModeOptions,
    RecordingOptions,
    WhatOptions,
    check_options,
)
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.render import visible
from orin_llm.cli.root_option import Root
from orin_llm.errors import OrinError

if TYPE_CHECKING:
    from orin_llm.monitor.feed import Feed
    from orin_llm.monitor.recording import Recorder
    from orin_llm.monitor.snapshot import Subject
    from orin_llm.monitor.state import State
    from orin_llm.monitor.thresholds import Thresholds

SETTLE_S = 3.0  # for the first words of tools and engines
MAX_SENSOR_S = 1.0  # tools print so often at least: their newest line is to be of now


@with_option_groups
def monitor(
    *,
    mode: ModeOptions,
    what: WhatOptions,
    alert: AlertOptions,
    recording: RecordingOptions,
    root: Root = Path("/"),
) -> None:
    """Watch the board and its engines: a live view, one look (--once), or a log (--headless).

    docs/monitor.md has the file of thresholds and the forms of logs and recordings.
    """
    check_options(mode, what, alert, recording)
    with ExitStack() as stack:
        feed = _open_feed(mode, what, recording, root, stack)
        config, thresholds = _thresholds(alert.config, feed.subject, root)
        recorder = _open_recorder(recording.record, feed, stack)
        if mode.once:
            code = _look(feed, thresholds, recorder, as_json=mode.as_json)
        elif mode.headless:
            code = _log(feed, thresholds, config, recorder, alert.alert_cmd)
        else:
            code = _show(feed, thresholds, recorder, recording.speed or 1.0)
    raise typer.Exit(1 if recorder is not None and recorder.problem else code)


def _open_feed(
    mode: ModeOptions,
    what: WhatOptions,
    recording: RecordingOptions,
    root: Path,
    stack: ExitStack,
) -> Feed:
    if recording.replay is not None:
        from orin_llm.monitor.recording import Replay

        replay = Replay(recording.replay)
        stack.callback(replay.close)
        return replay
    from orin_llm.device.board import read_board
    from orin_llm.device.sources import open_sensors
    from orin_llm.monitor.engines import EngineWatch
    from orin_llm.monitor.live import LiveFeed
    from orin_llm.monitor.machine import read_subject

    board = read_board(root)
    subject = read_subject(board, root)
    engines = EngineWatch(mode.interval_s, what.engine)
    stack.callback(engines.close)  # also where there are no sensors
    sensor_ms = min(mode.interval_s, MAX_SENSOR_S) * 1e3
    sensors = open_sensors(board, sensor_ms, what.source or "auto", root)
    feed = LiveFeed(sensors, engines, subject, mode.interval_s)
    stack.callback(feed.close)
    if mode.once or mode.headless:
        feed.settle(SETTLE_S)
    return feed


def _thresholds(
    config: Path | None, subject: Subject, root: Path
) -> tuple[Path | None, Thresholds]:
    """The file that is read, None without one, and what follows from it."""
    from orin_llm.monitor.thresholds import (
        default_thresholds,
        expected_power_w,
        find_file,
        read_thresholds,
    )

    path = config or find_file(root)
    power_w = expected_power_w(subject)
    if path is None:
        return None, default_thresholds(power_w)
    return path, read_thresholds(path, power_w)


def _open_recorder(path: Path | None, feed: Feed, stack: ExitStack) -> Recorder | None:
    from orin_llm.monitor.recording import Recorder

    if path is None:
        return None
    recorder = Recorder(path, feed.subject, feed.interval_s)
    stack.callback(recorder.close)
    return recorder


def _look(feed: Feed, thresholds: Thresholds, recorder: Recorder | None, *, as_json: bool) -> int:
    """Print the machine as it is, or as it was at the end of a recording."""
    from orin_llm.cli.monitor_once import print_state, to_json
    from orin_llm.monitor.recording import Replay
    from orin_llm.monitor.watch import Watch

    is_replay = isinstance(feed, Replay)
    watch = Watch(thresholds if is_replay else thresholds.at_once())
    state: State | None = None
    looks = 0
    while (is_replay or looks < 2) and (snapshot := feed.next()) is not None:
        looks += 1
        state = watch.update(snapshot, feed.problems)
        if recorder is not None:
            recorder.add(snapshot, feed.problems)
        if not is_replay and looks == 1:
            time.sleep(feed.interval_s)  # rates and loads are of the time between two looks
    _tell_odd(feed, recorder)
    if state is None:
        raise OrinError("the recording has no snapshot")
    if as_json:
        print_json(to_json(feed.subject, state))
    else:
        print_state(feed.subject, thresholds, state, is_replay=is_replay)
    return 0


def _log(
    feed: Feed,
    thresholds: Thresholds,
    config: Path | None,
    recorder: Recorder | None,
    command: str | None,
) -> int:
    """Log until a signal comes: 0, but 130 for Ctrl-C."""
    from orin_llm.monitor.commands import AlertCommands
    from orin_llm.monitor.headless import Agent, log_head
    from orin_llm.monitor.output import LineOutput
    from orin_llm.monitor.recording import Replay
    from orin_llm.monitor.watch import Watch

    agent = Agent(
        feed,
        Watch(thresholds),
        LineOutput(sys.stdout.fileno()),
        head=log_head(feed.subject, thresholds, config),
        recorder=recorder,
        commands=None if command is None else AlertCommands(command, _tell),
        tell=_tell,
    )
    ended_by = agent.run_through() if isinstance(feed, Replay) else agent.run()
    _tell_odd(feed, None)
    return INTERRUPTED if ended_by == signal.SIGINT else 0


def _show(feed: Feed, thresholds: Thresholds, recorder: Recorder | None, speed: float) -> int:
    from orin_llm.cli.monitor_app import run_live
    from orin_llm.monitor.watch import Watch

    code = run_live(feed, Watch(thresholds), recorder, speed)
    _tell_odd(feed, recorder)
    return code


def _tell_odd(feed: Feed, recorder: Recorder | None) -> None:
    if feed.note:
        _tell(f"note: {feed.note}")
    if recorder is not None and recorder.problem:
        _tell(f"error: {recorder.problem}")


def _tell(text: str) -> None:
    with suppress(OSError):  # nobody reads what goes wrong: no reason to stop watching
        print(visible(text), file=sys.stderr, flush=True)
