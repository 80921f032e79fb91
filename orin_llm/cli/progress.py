"""Loading a model with its progress shown: bytes, rate and time left, on a terminal's stderr."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from orin_llm.engine import Engine, EngineConfig, LoadProgress

QUICK_LOAD_S = 0.3  # a bar that is gone again at once only flickers


def load_engine(path: Path, config: EngineConfig, *, quiet: bool = False) -> Engine:
    """Load a model; a load that takes longer than a blink shows a bar if stderr is a terminal."""
    from orin_llm.engine import Engine

    with LoadBar(path.name, shown=not quiet and sys.stderr.isatty()) as bar:
        return Engine(path, config, bar.update)


class LoadBar:
    """A transient progress bar that appears only when a load is not quick."""

    def __init__(self, name: str, *, shown: bool) -> None:
        self._name = name
        self._shown = shown
        self._stack = ExitStack()
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> LoadBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def update(self, progress: LoadProgress) -> None:
        """Show how far the load is."""
        if not self._shown or (self._bar is None and progress.elapsed_s < QUICK_LOAD_S):
            return
        if self._bar is None:
            self._bar = self._open(progress.bytes_total)
        bar, task = self._bar
        bar.update(task, completed=progress.bytes_done, figures=load_figures(progress))

    def _open(self, total: int) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        bar = Progress(
            TextColumn(
                "{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)
            ),
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            TextColumn("{task.fields[figures]}", markup=False, table_column=Column(no_wrap=True)),
            console=Console(stderr=True),
            transient=True,
            expand=True,
        )
        self._stack.enter_context(bar)
        return bar, bar.add_task(self._name, total=total, figures="")


def load_figures(progress: LoadProgress) -> str:
    """What stands beside the bar: `1.2/4.6 GiB 820 MB/s 4 s left`."""
    done, total = progress.bytes_done / 2**30, progress.bytes_total / 2**30
    figures = f"{done:.1f}/{total:.1f} GiB {progress.bytes_per_s / 1e6:.0f} MB/s"
    if progress.bytes_done:
        figures += f" {progress.eta_s:.0f} s left"
    return figures
