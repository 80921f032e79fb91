"""Textual's driver of a terminal, on standard output: standard error stays free for errors."""

from __future__ import annotations

import io
import signal
import sys
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from typing_extensions import Buffer


class StdoutDriver(LinuxDriver):
    """Writes where the answer of a command goes; Textual itself writes to standard error."""

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        assert sys.__stdout__ is not None
        terminal = _Terminal(sys.__stdout__.fileno(), "wb", closefd=False)
        # Not as Python understands the locale: escape sequences and ASCII are the same in all.
        self._file = io.TextIOWrapper(io.BufferedWriter(terminal), "utf-8", "replace")


class _Terminal(io.FileIO):
    """One that is gone is a hang-up.

    An error would end Textual's thread that writes, and the app would wait for it for ever.
    """

    _is_gone = False

    def write(self, data: Buffer) -> int:
        try:
            if not self._is_gone:
                return super().write(data)
        except OSError:
            self._is_gone = True
            signal.raise_signal(signal.SIGHUP)
        return memoryview(data).nbytes
