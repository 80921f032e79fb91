"""The flags of `orin-llm monitor`, and which of them go together."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from orin_llm.errors import UsageError

HOW, WHAT, ALERTS, RECORDINGS = "How to watch", "What to watch", "Alerts", "Recordings"
LIVE_S, HEADLESS_S = 1.0, 5.0
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.1, 3600.0
MAX_SPEED = 1000.0


def flag(*names: str, help: str, panel: str, **more: Any) -> Any:
    """A Typer option without an environment mirror: most flags exclude others, and a variable that
    is set for one way of watching would be an error in another.
    """
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def seconds(text: str) -> float:
    """The value of --interval; UsageError for what is no number."""
    try:
        return float(text)
    except ValueError:
        raise UsageError(_not_an_interval(text)) from None


def _not_an_interval(text: str) -> str:
    return f"--interval {text}: expected {MIN_INTERVAL_S:g} … {MAX_INTERVAL_S:g} seconds"


@dataclass(frozen=True)
class ModeOptions:
    """In which way the machine is watched."""

    once: Annotated[
        bool, flag("--once", panel=HOW, help="Look for one interval, print a table, and end.")
    ] = False
    as_json: Annotated[
        bool, flag("--json", panel=HOW, help="With --once: print one JSON object.")
    ] = False
    headless: Annotated[
        bool, flag("--headless", panel=HOW, help="Print a line of JSON at each interval.")
    ] = False
    interval: Annotated[
        float | None,
        flag(
            "--interval",
            panel=HOW,
            metavar="SECONDS",
            parser=seconds,
            help="Between two looks, 0.1 to 3600; 1, or 5 with --headless, if not given.",
        ),
    ] = None

    @property
    def interval_s(self) -> float:
        """Seconds between two looks."""
        return self.interval or (HEADLESS_S if self.headless else LIVE_S)


@dataclass(frozen=True)
class WhatOptions:
    """Which sensors and engines."""

    source: Annotated[
        str | None,
        flag(
            "--source",
            panel=WHAT,
            metavar="[auto|tegrastats|sysfs|jtop|nvml|procfs]",
            help="Where readings come from; all there are if not given.",
        ),
    ] = None
    engine: Annotated[
        int | None,
        flag("--engine", panel=WHAT, metavar="PID", help="Only engines of this process."),
    ] = None


@dataclass(frozen=True)
class AlertOptions:
    """When there is an alert, and what happens then."""

    config: Annotated[
        Path | None,
        flag(
            "--config",
            panel=ALERTS,
            metavar="FILE",
            help="Thresholds; if not given ~/.config/orin-llm/monitor.toml, else "
            "/etc/orin-llm/monitor.toml.",
        ),
    ] = None
    alert_cmd: Annotated[
        str | None,
        flag(
            "--alert-cmd",
            panel=ALERTS,
            metavar="COMMAND",
            help="With --headless: run by the shell for each alert that begins or ends.",
        ),
    ] = None


@dataclass(frozen=True)
class RecordingOptions:
    """Keeping what was seen, and seeing it again."""

    record: Annotated[
        Path | None,
        flag("--record", panel=RECORDINGS, metavar="FILE", help="Write a recording (JSON lines)."),
    ] = None
    replay: Annotated[
        Path | None,
        flag("--replay", panel=RECORDINGS, metavar="FILE", help="Watch a recording instead."),
    ] = None
    speed: Annotated[
        float | None,
        flag(
            "--speed",
            panel=RECORDINGS,
            metavar="FACTOR",
            help="With --replay: how much faster than it was; 1 if not given.",
        ),
    ] = None


def check_options(
    mode: ModeOptions, what: WhatOptions, alert: AlertOptions, recording: RecordingOptions
) -> None:
    """UsageError for flags that do not go together, or values that cannot be."""
    interval, speed = mode.interval, recording.speed
    if interval is not None and not MIN_INTERVAL_S <= interval <= MAX_INTERVAL_S:
        raise UsageError(_not_an_interval(f"{interval:g}"))
    if speed is not None and not (math.isfinite(speed) and 0 < speed <= MAX_SPEED):
        raise UsageError(f"--speed {speed:g}: expected a number above 0, at most {MAX_SPEED:g}")
    if mode.once and mode.headless:
        raise UsageError("--once looks once and --headless goes on: leave out one of them")
    if mode.as_json and not mode.once:
        raise UsageError("--json goes with --once; --headless prints JSON without it")
    if alert.alert_cmd is not None and not mode.headless:
        raise UsageError("--alert-cmd goes with --headless: add it, or leave out the command")
    if alert.alert_cmd is not None and not alert.alert_cmd.strip():
        raise UsageError("--alert-cmd is empty: give a command, or leave it out")
    if recording.replay is None:
        if speed is not None:
            raise UsageError("--speed goes with --replay: add a recording, or leave it out")
    else:
        _check_replay(mode, what, recording)
    is_live = not mode.once and not mode.headless
    if is_live and not all(s is not None and s.isatty() for s in (sys.stdin, sys.stdout)):
        raise UsageError(
            "the live view needs a terminal. Use --once for a table, --once --json for one JSON "
            "object, or --headless for a line of JSON at each interval"
        )


def _check_replay(mode: ModeOptions, what: WhatOptions, recording: RecordingOptions) -> None:
    meaningless = {
        "--record": recording.record,
        "--source": what.source,
        "--engine": what.engine,
        "--interval": mode.interval,
    }
    for name, value in meaningless.items():
        if value is not None:
            raise UsageError(f"{name} is for watching this machine: leave it out with --replay")
    if recording.speed is not None and (mode.once or mode.headless):
        raise UsageError(
            "--speed is for the live view: without one a recording is read as fast as it can be"
        )
