"""The live view of `orin-llm monitor`, on the terminal that standard input and output are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.monitor.feed import Feed
    from orin_llm.monitor.recording import Recorder
    from orin_llm.monitor.watch import Watch

_CANNOT_MOVE = ("", "dumb", "unknown")  # values of TERM


def run_live(feed: Feed, watch: Watch, recorder: Recorder | None, speed: float) -> int:
    """Show the feed until the user or a signal ends it, and return the exit code.

    Args:
        recorder: gets each snapshot; None: nothing is recorded.
        speed: of a replay, in multiples of the time that it took.

    Raises:
        UsageError: there is no terminal that can show it.
        Exception: whatever ended the feed, once the terminal is as it was.
    """
    _check_terminal()
    # Not before they are needed: other ways to monitor work without Textual.
    from orin_llm.cli.live.app import MonitorApp
    from orin_llm.cli.live.driver import StdoutDriver
    from orin_llm.cli.live.frame import Playing
    from orin_llm.cli.live.glyphs import glyphs_for
    from orin_llm.cli.live.layout import Scene
    from orin_llm.cli.live.pump import Pump
    from orin_llm.cli.live.signals import ended_by_signals
    from orin_llm.monitor.recording import Replay

    replay_speed = speed if isinstance(feed, Replay) else None
    glyphs = glyphs_for(_environment_at_start())
    scene = Scene(feed.subject, watch.thresholds, glyphs, isinstance(feed, Replay))
    make_pump = partial(Pump, feed, watch, recorder, replay_speed)
    app = MonitorApp(scene, make_pump, Playing(replay_speed), StdoutDriver)
    try:
        with ended_by_signals(app.end):
            code = app.run(mouse=False)
    finally:
        app.pump.stop()
    if app.error is not None:
        raise app.error
    return code if code is not None else app.return_code or 0


def _check_terminal() -> None:
    instead = "use --once for a table, or --headless for JSON lines"
    terminal = os.environ.get("TERM", "")
    if terminal in _CANNOT_MOVE:
        raise UsageError(
            f"the live view needs a terminal that can move its cursor, and TERM is "
            f"{terminal or 'not set'}: {instead}"
        )


def _environment_at_start() -> Mapping[str, str]:
    """As the shell gave it: Python sets LC_CTYPE to a UTF-8 locale where there is none."""
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return os.environ
    return dict(os.fsdecode(entry).split("=", 1) for entry in entries if b"=" in entry)
