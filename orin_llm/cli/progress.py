"""Messages and progress of long work on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from orin_llm.cli.render import visible
from orin_llm.closeable import Closeable
from orin_llm.host.units import size_text
from orin_llm.models.reporter import Progress, Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from orin_llm.engine import Engine, EngineConfig
    from orin_llm.engine.progress import LoadProgress

QUIET_S = 10.0  # between two lines where there is no terminal
QUICK_S = 0.5  # a step that is done by then is not worth a bar


def reporter(quiet: bool) -> StderrReporter:
    """The reporter for this run's stderr."""
    if quiet:
        return StderrReporter(messages=False)
    return BarReporter() if sys.stderr.isatty() else LineReporter()


def load_progress(path: Path, report: Reporter) -> Callable[[LoadProgress], None]:
    """What a load of the model tells, as a step of `report`."""
    return lambda load: report.progress(Progress(path.name, load.bytes_done, load.bytes_total))


def load_engine(path: Path, config: EngineConfig, *, quiet: bool = False) -> Engine:
    """Load a model; a load that takes longer than a blink shows a bar if stderr is a terminal.

    A model that runs without what was asked for is a note on stderr.
    """
    from orin_llm.engine import Engine

    with reporter(quiet or not sys.stderr.isatty()) as report:
        engine = Engine(path, config, load_progress(path, report))
    if not quiet:
        print_note(engine.backend)
    return engine


def print_note(backend: Mapping[str, Any]) -> None:
    """What does not run as it was asked for (`engine.backend`), on stderr."""
    if "note" in backend:
        print(visible(f"note: {backend['note']}"), file=sys.stderr)


class StderrReporter(Closeable, Reporter):
    """Messages as lines on stderr; no progress. A context manager, for those that draw."""

    def __init__(self, messages: bool = True) -> None:
        self._messages = messages

    def message(self, text: str) -> None:
        if self._messages:
            print(visible(text), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Take away what is drawn."""


class LineReporter(StderrReporter):
    """One line every ten seconds of a step that takes that long."""

    def __init__(self) -> None:
        super().__init__()
        self._step = ""
        self._began = self._last = 0.0
        self._first = 0

    def progress(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.step != self._step:
            self._step, self._began, self._last, self._first = (
                progress.step,
                now,
                now,
                progress.done,
            )
        elif now - self._last >= QUIET_S:
            self._last = now
            rate = (progress.done - self._first) / (now - self._began)
            self.message(line(progress, rate))


def line(progress: Progress, rate: float) -> str:
    """`fetching x.gguf: 1.2 GB of 4.9 GB (24 %), 35.0 MB/s, 1:45 left`; `rate` by the second.

    Of what is no bytes: `perplexity: 12 of 48 windows (25 %), 0:35 left`.
    """
    of_bytes = progress.unit == "bytes"
    done = size_text(progress.done) if of_bytes else str(progress.done)
    text = f"{progress.step}: {done}"
    if progress.total:
        total = size_text(progress.total) if of_bytes else str(progress.total)
        text += f" of {total}"
    text += "" if of_bytes else f" {progress.unit}"
    if progress.total:
        text += f" ({100 * progress.done // progress.total} %)"
    text += f", {size_text(rate)}/s" if of_bytes else ""
    if progress.total and rate > 0:
        left = round((progress.total - progress.done) / rate)
        text += f", {left // 60}:{left % 60:02d} left"
    return text


class BarReporter(StderrReporter):
    """A bar with what is done and the time left, which goes away when the step is done."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: tuple[Bar, TaskID] | None = None
        self._step = ""
        self._began = 0.0

    def progress(self, progress: Progress) -> None:
        if progress.step != self._step:
            self.close()
            self._step, self._began = progress.step, time.monotonic()
        if self._bar is None:
            if time.monotonic() - self._began < QUICK_S:
                return
            self._bar = _open_bar(progress)
        bar, task = self._bar
        bar.update(task, completed=progress.done, total=progress.total)

    def message(self, text: str) -> None:
        if self._bar is None:
            super().message(text)
        else:
            self._bar[0].console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None


def _open_bar(progress: Progress) -> tuple[Bar, TaskID]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar
    from rich.table import Column

    counts: list[ProgressColumn] = [DownloadColumn(), TransferSpeedColumn()]
    if progress.unit != "bytes":
        counts = [MofNCompleteColumn(), TextColumn(progress.unit)]
    bar = Bar(
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        *counts,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        expand=True,
    )
    bar.start()
    return bar, bar.add_task(progress.step, total=progress.total, completed=progress.done)
