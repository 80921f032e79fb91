"""Statistics on a socket: what clients get, and what none of them can do to the others."""

from __future__ import annotations

import gc
import json
import math
import os
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from stats_support import Source, server_threads, until

from orin_llm.errors import OrinError
from orin_llm.stats import StatsPublisher, attach, running_engines
from orin_llm.stats.protocol import MAX_CLIENTS, MAX_LINE_BYTES


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield Source()


@pytest.fixture
def path(source: Source) -> Iterator[Path]:
    """The socket of a publisher of the source."""
    publisher = StatsPublisher(source)
    assert publisher.path is not None and publisher.problem is None
    yield publisher.path
    publisher.close()


def raw(path: Path, request: bytes = b"") -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(str(path))
    if request:
        connection.sendall(request)
    return connection


def lines_until_end(connection: socket.socket) -> list[dict[str, object]]:
    with connection, connection.makefile("rb") as file:
        return [json.loads(line) for line in file if line.endswith(b"\n")]


def test_a_client_gets_a_hello_and_then_statistics(source: Source, path: Path) -> None:
    before_ms = time.time() * 1e3
    with attach(path, interval_ms=20) as attached:
        engine = attached.engine
        assert (engine.pid, engine.model, engine.path) == (os.getpid(), "a.gguf", path)
        assert engine.config == {"n_ctx": 2048, "hooks": ["a", "b"]}
        assert before_ms - 60e3 < engine.started_ms <= time.time() * 1e3
        first, second = next(attached), next(attached)
        source.values = {"pages": {"used": 4}}
        until(lambda: next(attached)["pages"] == {"used": 4}, "the new number")
    assert first["pages"] == {"used": 3}
    assert before_ms <= first["at_ms"] < second["at_ms"] <= time.time() * 1e3
    assert second["monotonic_ms"] > first["monotonic_ms"]


def test_a_client_that_only_listens_gets_one_line_after_the_other(
    source: Source, path: Path
) -> None:
    with raw(path) as connection, connection.makefile("rb") as file:
        connection.shutdown(socket.SHUT_WR)
        lines = [json.loads(file.readline()) for _ in range(3)]
    assert [line.get("protocol") for line in lines] == [1, None, None]
    assert lines[2]["monotonic_ms"] > lines[1]["monotonic_ms"]


def test_only_the_user_can_reach_the_socket(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_nothing_runs_while_nobody_listens(source: Source, path: Path) -> None:
    def status() -> str:
        return Path(f"/proc/self/task/{server_threads()[-1].native_id}/status").read_text()

    def switches() -> str:
        return status().partition("voluntary_ctxt_switches")[2]

    def rests() -> bool:
        before = switches()
        time.sleep(0.05)
        return switches() == before and "State:\tS" in status()  # R: it waits for a processor

    until(rests, "rest")
    before = switches()
    time.sleep(0.3)
    assert switches() == before
    assert source.asked == 0
    with attach(path) as attached:
        next(attached)
    until(rests, "rest after a client")
    assert source.asked == 1


def test_clients_of_different_intervals_do_not_wait_for_each_other(path: Path) -> None:
    with attach(path, interval_ms=60_000) as slow, attach(path, interval_ms=20) as fast:
        next(slow)
        times = [next(fast)["monotonic_ms"] for _ in range(4)]
    assert times == sorted(times)


def test_a_client_that_does_not_read_is_dropped_and_others_go_on(
    source: Source, path: Path
) -> None:
    source.values = {"text": "x" * 60_000}
    with attach(path, interval_ms=20) as reader:
        silent = raw(path, b'{"interval_ms": 20}\n')
        asked = source.asked
        while source.asked < asked + 40 and next(reader):
            pass
        held = lines_until_end(silent)
        assert 2 < len(held) < 20
        assert next(reader)["text"] == "x" * 60_000


def test_clients_that_leave_are_forgotten(source: Source, path: Path) -> None:
    for _ in range(3 * MAX_CLIENTS):
        raw(path).close()
        with attach(path, interval_ms=60_000) as attached:
            next(attached)
    with attach(path, interval_ms=20) as attached:
        assert next(attached)


def test_one_client_too_many_is_told_so(path: Path) -> None:
    clients = [attach(path, interval_ms=20) for _ in range(MAX_CLIENTS)]
    try:
        hello, error = lines_until_end(raw(path))
        assert hello["protocol"] == 1 and error == {"error": "16 clients are attached already"}
        assert [engine.path for engine in running_engines()] == [path]
        with attach(path, interval_ms=20) as refused, pytest.raises(OrinError, match="16 clients"):
            next(refused)
        assert all(next(client) for client in clients)
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    "request_line, message",
    [
        (b"hello?\n", "expected a line of JSON, found b'hello?"),
        (b"\xff\n", "expected a line of JSON"),
        (b"[" * 200 + b"\n", "expected a"),
        (b"[20]\n", "expected a JSON object"),
        (b'{"interval_ms": "20"}\n', "a whole number"),
        (b'{"interval_ms": true}\n', "a whole number"),
        (b'{"interval_ms": 20, "more": 1}\n', "a whole number"),
        (b'{"interval_ms": 0}\n', "interval_ms is 0: expected 20 … 60000"),
        (b'{"interval_ms": 60001}\n', "interval_ms is 60001"),
        (b"x" * 300, "at most 256 bytes"),
        (b'{"interval_ms": 20}\n{"interval_ms": 20}\n', "more than one request"),
    ],
)
def test_a_request_that_cannot_be_is_answered_and_ends_the_connection(
    path: Path, request_line: bytes, message: str
) -> None:
    lines = lines_until_end(raw(path, request_line))
    assert message in str(lines[-1]["error"])
    with attach(path) as attached:
        assert next(attached)


def test_a_request_may_come_in_pieces_and_is_followed(path: Path) -> None:
    with raw(path) as connection, connection.makefile("rb") as file:
        assert [b"protocol" in file.readline() for _ in range(2)] == [True, False]
        for part in (b'{"interval', b'_ms": ', b"60000}", b"\n"):
            connection.sendall(part)
            time.sleep(0.02)
        connection.settimeout(1.5)
        for _ in range(10):  # before the last piece has come, a line a second
            try:
                connection.recv(MAX_LINE_BYTES)
            except TimeoutError:
                return
    pytest.fail("lines go on to come as if nothing had been asked for")


@pytest.mark.parametrize("value", [math.nan, math.inf, "x" * MAX_LINE_BYTES])
def test_numbers_that_json_has_no_word_for_are_an_error_of_their_line(
    source: Source, path: Path, value: object
) -> None:
    source.values = {"rate": value}
    with attach(path) as attached, pytest.raises(OrinError, match="gives no statistics"):
        next(attached)
    source.values = {"rate": 1.0}
    with attach(path) as attached:
        assert next(attached)["rate"] == 1.0


def test_an_engine_that_fails_says_so_to_who_listens(source: Source, path: Path) -> None:
    def fail() -> dict[str, object]:
        raise OrinError("this engine is closed: make a new one")

    source.stats = fail  # type: ignore[method-assign]
    with attach(path) as attached, pytest.raises(OrinError, match="this engine is closed"):
        next(attached)


def test_closing_removes_the_socket_and_ends_the_connections(source: Source) -> None:
    publisher = StatsPublisher(source)
    assert publisher.path is not None
    threads = len(server_threads())
    with attach(publisher.path, interval_ms=60_000) as attached:
        next(attached)
        publisher.close()
        publisher.close()
        assert list(attached) == []
    assert not publisher.path.exists()
    until(lambda: len(server_threads()) == threads - 1, "the thread's end")
    with pytest.raises(OrinError, match="no engine answers at .*: No such file"):
        attach(publisher.path)


def test_a_source_is_not_kept_alive(source: Source) -> None:
    forgotten = Source("forgotten.gguf")
    publisher = StatsPublisher(forgotten)
    assert publisher.path is not None
    with attach(publisher.path, interval_ms=60_000) as attached:
        next(attached)
        del forgotten
        gc.collect()
        assert list(attached) == []
    assert not publisher.path.exists()
    until(lambda: not publisher._thread.is_alive(), "the thread's end")  # type: ignore[union-attr]
