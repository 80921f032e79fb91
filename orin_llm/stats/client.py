"""A tool's side: which engines run, and what one of them says of itself."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_llm.closeable import Closeable
from orin_llm.errors import OrinError
from orin_llm.stats.folder import connect, own_sockets
from orin_llm.stats.protocol import MAX_LINE_BYTES, PROTOCOL, decode

_PID_END = 1 << 31
HELLO_S = 1.0  # an engine that has not said hello by then is stopped, or none


@dataclass(frozen=True)
class RunningEngine:
    """An engine that publishes its statistics.

    Attributes:
        path: its socket.
        pid: its process.
        model: its model's file.
        started_ms: when it was ready, Unix time.
        config: how it runs.
    """

    path: Path
    pid: int
    model: str
    started_ms: float
    config: dict[str, Any]


def running_engines() -> list[RunningEngine]:
    """The user's engines that answer, by their sockets' names."""
    found = []
    for path in own_sockets():
        with suppress(OSError, OrinError), attach(path) as attached:
            found.append(attached.engine)
    return found


def attach(path: Path, *, interval_ms: int | None = None) -> Attachment:
    """Listen to the engine that publishes at a socket.

    Args:
        interval_ms: between its lines; None for a second.

    Raises:
        OrinError: no engine answers there.
    """
    try:
        return Attachment(path, interval_ms)
    except OSError as error:
        raise OrinError(
            f"no engine answers at {path}: {error.strerror or error}; it may have ended"
        ) from error


class Attachment(Closeable, Iterator[dict[str, Any]]):
    """The statistics of an engine, as docs/statistics.md describes them, until it is closed.

    An iterator that waits for each line, and a context manager. It raises OrinError for what the
    engine reports as an error.

    Attributes:
        engine: which one it is.
    """

    engine: RunningEngine

    def __init__(self, path: Path, interval_ms: int | None) -> None:
        self._connection = connect(path, HELLO_S)
        self._lines = self._connection.makefile("rb")
        try:
            hello = next(self, None)
            if hello is None:
                raise ConnectionResetError(errno.ECONNRESET, "it hung up")
            if hello.get("protocol") != PROTOCOL:
                raise OrinError(
                    f"{path} does not speak version {PROTOCOL} of the statistics' protocol: use "
                    "the orin-llm that the engine runs with"
                )
            self.engine = _engine(path, hello)
            if interval_ms is not None:
                request = json.dumps({"interval_ms": interval_ms}) + "\n"
                with suppress(BrokenPipeError):  # refused: the next line says why
                    self._connection.sendall(request.encode())
            self._connection.settimeout(None)
        except BaseException:
            self.close()
            raise

    def __next__(self) -> dict[str, Any]:
        try:
            line = self._lines.readline(MAX_LINE_BYTES + 1)
        except ConnectionError:
            raise StopIteration from None
        if not line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES:
            raise StopIteration
        return decode(line)

    def close(self) -> None:
        self._lines.close()
        self._connection.close()


def _engine(path: Path, hello: dict[str, Any]) -> RunningEngine:
    try:
        pid = int(hello["pid"])
        if not 0 < pid < _PID_END:
            raise ValueError("a process that can be")
        return RunningEngine(
            path,
            pid,
            str(hello["model"]),
            float(hello["started_ms"]),
            dict(hello["config"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise OrinError(f"{path} says hello without {error}") from error
