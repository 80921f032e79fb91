"""The loop that serves the statistics: sleeps until somebody connects, and waits for nobody."""

from __future__ import annotations

import os
import select
import selectors
import socket
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from orin_llm.errors import OrinError
from orin_llm.stats.folder import listen, unused_path
from orin_llm.stats.protocol import (
    DEFAULT_INTERVAL_MS,
    MAX_CLIENTS,
    MAX_LINE_BYTES,
    MAX_REQUEST_BYTES,
    PROTOCOL,
    encode,
    interval_of,
)

# Kept by the kernel for a client that does not read: some dozens of lines, then it is dropped.
SEND_BUFFER_BYTES = 2 * MAX_LINE_BYTES
_NO_FILES_LEFT_S = 0.1


class StatsSource(Protocol):
    """What publishes: an engine."""

    def describe(self) -> Mapping[str, object]:
        """What does not change: at least "model" and "config"."""
        ...

    def stats(self) -> Mapping[str, object]:
        """Numbers of this moment; cheap."""
        ...


@dataclass(eq=False)
class _Client:
    """A connection; `due_s` is when its next line is, of time.monotonic()."""

    connection: socket.socket
    due_s: float
    interval_s: float = DEFAULT_INTERVAL_MS / 1e3
    request: bytearray = field(default_factory=bytearray)


class StatsServer:
    """Answers on a socket, in one thread that calls `run` once it listens.

    Each client gets a line that says hello, then one of statistics, another after each interval. A
    line that its socket does not take at once is its last.
    """

    def __init__(self, source: weakref.ref[StatsSource]) -> None:
        self._path: Path | None = None  # to be removed, if it is there
        self._source = source
        self._pid = os.getpid()
        self._started_ms = time.time() * 1e3
        self._stopping = False
        self._listener: socket.socket | None = None
        self._waking, self._woken = socket.socketpair()
        self._waking.setblocking(False)
        self._clients: list[_Client] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        _servers.add(self)

    def listen(self, folder: Path) -> Path:
        """Make the socket in the folder, and give its path.

        `stop` removes it, also where a signal's exception ends this between any two steps.

        Raises:
            OrinError, OSError: there can be none.
        """
        with unused_path(folder) as path:
            self._path = path
            try:
                self._listener = listen(path)
            except OSError:
                self._path = None  # it may be another's as soon as the folder is not locked
                raise
        self._selector.register(self._listener, selectors.EVENT_READ)
        return path

    def run(self) -> None:
        """Serve until `stop`."""
        try:
            while not self._stopping:
                for key, _ in self._selector.select(self._time_left_s()):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.data is not None:
                        self._read(key.data)
                self._send_what_is_due()
        finally:
            self.close_files()

    def stop(self) -> None:
        """Remove the socket and let `run` return soon. From any thread, and more than once.

        A process forked off the one that published leaves the socket to it.
        """
        if os.getpid() != self._pid:
            return
        self._stopping = True
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()
            self._path = None
        with suppress(OSError):  # it has ended, or was woken and did not run yet
            self._waking.send(b"\0")

    def close_files(self) -> None:
        """Close what is open, and nothing more: what a forked process inherited is not its own."""
        self._selector.close()
        for client in self._clients:
            client.connection.close()
        for end in (self._listener, self._waking, self._woken):
            if end is not None:
                end.close()

    def _time_left_s(self) -> float | None:
        if not self._clients:
            return None
        return max(0.0, min(client.due_s for client in self._clients) - time.monotonic())

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):  # who called is gone already
            return
        except OSError:  # the process may open no more files: the caller waits, and so do we
            time.sleep(_NO_FILES_LEFT_S)
            return
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        client = _Client(connection, due_s=time.monotonic())
        self._clients.append(client)
        self._selector.register(connection, selectors.EVENT_READ, client)
        self._tell([client], self._facts)
        if len(self._clients) > MAX_CLIENTS:
            self._refuse(client, f"{MAX_CLIENTS} clients are attached already")

    def _read(self, client: _Client) -> None:
        """Take what a client asks for: one line. It need not ask, nor keep its end open."""
        try:
            data = client.connection.recv(MAX_REQUEST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            return self._drop(client)
        if not data:
            if _has_hung_up(client.connection):
                self._drop(client)
            else:
                self._selector.unregister(client.connection)
            return
        client.request += data
        if len(client.request) > MAX_REQUEST_BYTES:
            return self._refuse(client, f"a request has at most {MAX_REQUEST_BYTES} bytes")
        line, end, more = bytes(client.request).partition(b"\n")
        if not end:
            return
        if more:
            return self._refuse(client, "there is more than one request")
        try:
            client.interval_s = interval_of(line) / 1e3
        except OrinError as error:
            return self._refuse(client, str(error))
        client.due_s = time.monotonic() + client.interval_s

    def _send_what_is_due(self) -> None:
        now = time.monotonic()
        due = [client for client in self._clients if client.due_s <= now]
        for client in due:  # the next one after now, in the client's own rhythm
            client.due_s = max(client.due_s, now - client.interval_s) + client.interval_s
        if due:
            self._tell(due, self._statistics)

    def _send(self, client: _Client, line: bytes) -> None:
        try:
            if client.connection.send(line) == len(line):
                return
        except OSError:  # it does not read, or is gone
            pass
        self._drop(client)

    def _refuse(self, client: _Client, reason: str) -> None:
        self._send(client, encode({"error": reason}))
        self._drop(client)

    def _drop(self, client: _Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
            with suppress(KeyError):  # not watched any more
                self._selector.unregister(client.connection)
            client.connection.close()

    def _facts(self, source: StatsSource) -> Mapping[str, object]:
        own = {"protocol": PROTOCOL, "pid": self._pid, "started_ms": self._started_ms}
        return {**source.describe(), **own}

    def _statistics(self, source: StatsSource) -> Mapping[str, object]:
        times = {"at_ms": time.time() * 1e3, "monotonic_ms": time.monotonic() * 1e3}
        return {**times, **source.stats()}

    def _tell(
        self, clients: list[_Client], ask: Callable[[StatsSource], Mapping[str, object]]
    ) -> None:
        """Ask the source once and send what it says; when it cannot, that is the last line."""
        source = self._source()
        if source is None:  # freed; its finalizer is calling `stop`
            self._stopping = True
            return
        try:
            line = encode(ask(source))
        except Exception as error:  # whatever it is: it is theirs who listen, not the engine's
            for client in clients:
                self._refuse(client, f"the engine gives no statistics: {error}")
            return
        for client in clients:
            self._send(client, line)


def _has_hung_up(connection: socket.socket) -> bool:
    """Whether the other side is closed, and not only the way from there."""
    poller = select.poll()
    poller.register(connection, 0)  # hang-ups are reported unasked
    return bool(poller.poll(0))


_servers: weakref.WeakSet[StatsServer] = weakref.WeakSet()


def _close_inherited() -> None:
    """In a forked process: it has no thread to serve, and would keep callers waiting for one."""
    for server in list(_servers):
        server.close_files()


os.register_at_fork(after_in_child=_close_inherited)
