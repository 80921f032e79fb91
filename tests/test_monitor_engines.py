"""Engines as the monitor finds and follows them: real ones, stopped, killed, and odd ones."""

from __future__ import annotations

import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from fakes import boards
from monitor_support import ask, engine_process
from stats_support import Source, first_line, publishing, until

from orin_llm.device.board import read_board
from orin_llm.device.reading import Reading
from orin_llm.device.sources import open_sensors
from orin_llm.errors import OrinError
from orin_llm.monitor.engines import EngineWatch
from orin_llm.monitor.figures import Figures
from orin_llm.monitor.live import LiveFeed
from orin_llm.monitor.machine import read_subject
from orin_llm.monitor.snapshot import Snapshot
from orin_llm.monitor.state import EngineFigures
from orin_llm.stats import StatsPublisher, attach

INTERVAL_S = 0.1


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where engines publish; new ones are found soon, and silence is noticed soon."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("orin_llm.monitor.engines.SEARCH_S", 0.05)
    return tmp_path


@pytest.fixture
def quick_to_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orin_llm.monitor.engines._SILENT_S", 0.0)


@contextmanager
def watching(pid: int | None = None) -> Iterator[EngineWatch]:
    watch = EngineWatch(INTERVAL_S, pid)
    try:
        yield watch
    finally:
        watch.close()


def models(watch: EngineWatch) -> set[str]:
    return {Path(sample.model).name for sample in watch.samples()}


def figures_until(
    watch: EngineWatch, fits: Callable[[EngineFigures], bool], figures: Figures | None = None
) -> EngineFigures:
    """The figures of the only engine once they fit."""
    followed = figures or Figures(2, 2)
    seen: list[EngineFigures] = []

    def fit() -> bool:
        seen[:] = followed.update(Snapshot(0.0, Reading(0.0), watch.samples()))
        return len(seen) == 1 and fits(seen[0])

    until(fit, "figures that fit")
    return seen[0]


def test_a_running_engine_s_answers_and_pages_are_seen(tiny_model: Path, folder: Path) -> None:
    with engine_process(tiny_model, folder) as process, watching() as watch:
        idle = figures_until(watch, lambda engine: engine.max_running == 16)
        assert (idle.pid, idle.model) == (process.pid, str(tiny_model))
        assert (idle.running, idle.answers, idle.ttft_ms, idle.kv_used) == (0, 0, None, 0.0)
        assert idle.kv_pages_total == 256 and idle.kv_bytes_reserved  # 16 sequences of 256 tokens
        ask(process, 20)
        first = figures_until(watch, lambda engine: engine.answers == 1)
        assert first.last_ttft_ms is not None and first.last_ttft_ms > 0 and first.ttft_ms is None
        ask(process, 20)
        second = figures_until(watch, lambda engine: engine.ttft_ms is not None)
        assert second.answers == 2 and second.tpot_ms is not None and second.tpot_ms > 0


def test_rates_of_a_running_engine_come_from_its_own_counters(
    tiny_model: Path, folder: Path
) -> None:
    figures = Figures(1, 1)
    with engine_process(tiny_model, folder) as process, watching() as watch:
        figures_until(watch, lambda engine: engine.max_running == 16, figures)
        ask(process, 100)
        found = figures_until(watch, lambda e: bool(e.decode_tokens_per_s), figures)
        assert found.step_ms is not None and found.step_ms > 0
        figures_until(watch, lambda engine: engine.decode_tokens_per_s == 0, figures)


def test_a_killed_engine_is_gone_and_told_for_a_while(
    tiny_model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_process(tiny_model, folder) as process, watching() as watch:
        until(lambda: len(watch.samples()) == 1, "the engine")
        (name,) = (sample.name for sample in watch.samples())
        process.kill()
        until(lambda: watch.samples() == (), "its end")
        process.wait()
        (left,) = (folder / "orin-llm").iterdir()
        told = {f"engine {name}": "tiny.gguf was killed or has crashed: its socket is left, and "}
        told[f"engine {name}"] += "nobody answers"
        searches = threading.active_count()
        for _ in range(50):  # while it is tried again and again
            time.sleep(0.01)
            assert watch.problems == told and watch.samples() == ()
        until(lambda: threading.active_count() <= searches, "the end of threads")
        left.unlink()  # as the next engine does
        for _ in range(20):
            time.sleep(0.01)
            assert watch.problems == told
        monkeypatch.setattr("orin_llm.monitor.engines._LOST_S", 0.0)
        assert watch.problems == {}


def test_a_closed_engine_is_gone_and_no_problem(folder: Path) -> None:
    process = publishing("a.gguf", folder)
    with watching() as watch:
        until(lambda: len(watch.samples()) == 1, "the engine")
        process.communicate()
        until(lambda: watch.samples() == (), "its end")
        for _ in range(30):
            time.sleep(0.01)
            assert watch.problems == {}


def test_an_engine_with_the_name_of_a_killed_one_is_no_problem(folder: Path) -> None:
    source = Source()
    with ExitStack() as stack, watching() as watch:
        publisher = StatsPublisher(source)
        until(lambda: len(watch.samples()) == 1, "the engine")
        assert publisher.path is not None
        name, aside = publisher.path, folder / "aside"
        name.rename(aside)
        publisher.close()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(name))
        until(lambda: "was killed" in str(watch.problems), "the problem")
        name.unlink()
        stack.callback(StatsPublisher(source).close)
        until(lambda: len(watch.samples()) == 1, "the engine")
        assert watch.problems == {}


def test_engines_that_start_later_are_found_and_those_that_end_are_gone(folder: Path) -> None:
    with watching() as watch:
        watch.settle(60)
        assert watch.samples() == ()
        processes = [publishing(f"{name}.gguf", folder) for name in "ab"]
        until(lambda: models(watch) == {"a.gguf", "b.gguf"}, "both")
        names = [sample.name for sample in watch.samples()]
        assert names == sorted(f"{process.pid}-0" for process in processes)
        processes[0].communicate()
        until(lambda: models(watch) == {"b.gguf"}, "the end of one")
        processes[1].communicate()
        until(lambda: models(watch) == set(), "the end of both")


def test_a_stopped_engine_is_told_and_stays_as_it_was_until_it_goes_on(
    folder: Path, quick_to_miss: None
) -> None:
    process = publishing("a.gguf", folder)
    path = first_line(process)
    with watching() as watch:
        until(lambda: len(watch.samples()) == 1, "the engine")
        before = watch.samples()
        process.send_signal(signal.SIGSTOP)
        until(lambda: bool(watch.problems), "the silence")
        (name, problem), *_ = watch.problems.items()
        assert name == f"engine {path.stem}" and "has said nothing for" in problem
        assert [sample.name for sample in watch.samples()] == [before[0].name]
        process.send_signal(signal.SIGCONT)
        until(lambda: watch.problems == {}, "its word")
        process.communicate()
        until(lambda: watch.samples() == (), "its end")
        assert watch.problems == {}


def test_an_engine_that_hung_before_it_was_found_holds_nobody_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.stats.client.HELLO_S", 0.1)
    hung, running = publishing("hung.gguf", folder), publishing("running.gguf", folder)
    path = first_line(hung)
    hung.send_signal(signal.SIGSTOP)
    status = Path(f"/proc/{hung.pid}/status")
    until(lambda: "T (stopped)" in status.read_text(), "its standstill")
    with watching() as watch:
        until(lambda: models(watch) == {"running.gguf"}, "the other")
        until(lambda: f"engine {path.stem}" in watch.problems, "the problem")
        for _ in range(100):  # while it is tried again and again the problem does not come and go
            time.sleep(0.01)
            assert "no engine answers at" in watch.problems[f"engine {path.stem}"]
        hung.send_signal(signal.SIGCONT)
        until(lambda: models(watch) == {"hung.gguf", "running.gguf"}, "it")
        assert watch.problems == {}
    for process in (hung, running):
        process.communicate()


def test_an_engine_that_gives_no_numbers_is_told_and_asked_again() -> None:
    class Broken(Source):
        def stats(self) -> dict[str, object]:
            if self.asked == 0:
                raise RuntimeError("counters are wet")
            return super().stats()

    with ExitStack() as stack:
        source = Broken()
        stack.callback(StatsPublisher(source).close)
        watch = stack.enter_context(watching())
        until(lambda: "counters are wet" in str(watch.problems), "the problem")
        source.asked = 1
        until(lambda: models(watch) == {"a.gguf"} and watch.problems == {}, "the numbers")


def test_a_socket_of_something_else_is_told(folder: Path) -> None:
    (folder / "orin-llm").mkdir(mode=0o700)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(folder / "orin-llm" / "1-0.sock"))
        listener.listen()

        def answer() -> None:
            while True:
                try:
                    listener.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\n")
                except OSError:
                    return

        threading.Thread(target=answer, daemon=True).start()
        watch = stack.enter_context(watching())
        until(lambda: "expected a line of JSON" in str(watch.problems), "the problem")
        assert list(watch.problems) == ["engine 1-0"] and watch.samples() == ()
        (folder / "orin-llm" / "1-0.sock").unlink()
        until(lambda: watch.problems == {}, "its end")
        listener.shutdown(socket.SHUT_RDWR)


def test_only_the_chosen_process_s_engines_are_watched(folder: Path) -> None:
    processes = [publishing(f"{name}.gguf", folder) for name in "ab"]
    for process in processes:
        first_line(process)
    with watching(processes[1].pid) as watch:
        watch.settle(60)
        assert models(watch) == {"b.gguf"}
    tenth = processes[1].pid // 10  # its name begins as theirs do
    with pytest.raises(OrinError, match=f"process {tenth} has no engine"):
        EngineWatch(INTERVAL_S, tenth)
    for process in processes:
        process.communicate()


def test_a_process_without_engine_cannot_be_chosen() -> None:
    with pytest.raises(OrinError, match="process 1 has no engine that publishes statistics: leave"):
        EngineWatch(INTERVAL_S, 1)


def test_settled_is_when_every_engine_has_said_something(folder: Path) -> None:
    processes = [publishing(f"{name}.gguf", folder) for name in "abc"]
    for process in processes:
        first_line(process)
    with watching() as watch:
        watch.settle(60)
        assert models(watch) == {"a.gguf", "b.gguf", "c.gguf"}
    for process in processes:
        process.communicate()


@pytest.mark.parametrize("choice", ["tegrastats", "procfs"])
def test_a_settled_feed_has_sensors_and_engines_in_its_first_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    machine = boards.jetson(tmp_path / "board", boards.AGX_64_JP6)
    monkeypatch.setenv("PATH", machine.path)
    source = Source()
    with ExitStack() as stack:
        stack.callback(StatsPublisher(source).close)
        board = read_board(machine.root)
        sensors = open_sensors(board, 100, choice, machine.root)
        subject = read_subject(board, machine.root)
        feed = LiveFeed(sensors, EngineWatch(INTERVAL_S), subject, INTERVAL_S)
        stack.callback(feed.close)
        feed.settle(60)
        first = feed.next()
        assert first.reading.ram_used_bytes and first.engines[0].model == "a.gguf"
        assert feed.problems == {}


def test_who_no_longer_watches_is_gone_from_the_engine(folder: Path) -> None:
    source = Source()
    with ExitStack() as stack:
        publisher = StatsPublisher(source)
        stack.callback(publisher.close)
        with watching() as watch:
            until(lambda: models(watch) == {"a.gguf"}, "the engine")

        def threads() -> list[str]:
            return [t.name for t in threading.enumerate() if t.name.startswith("engine")]

        until(lambda: threads() == [], "the end of all threads")


@pytest.mark.parametrize(
    "hello",
    [
        '{"protocol": 1, "pid": 1e400, "model": "a", "started_ms": 1, "config": {}}',
        '{"protocol": 1, "pid": 99999999999, "model": "a", "started_ms": 1, "config": {}}',
        '{"protocol": 1, "pid": 7, "model": "a", "started_ms": 1' + "0" * 400 + ', "config": {}}',
        '{"protocol": 1, "pid": 7, "model": "a", "started_ms": 1, "config": {"a": '
        + "[" * 400
        + "]" * 400
        + "}}",
    ],
)
def test_a_hello_that_cannot_be_is_a_problem_and_ends_no_thread_by_an_error(
    folder: Path, hello: str
) -> None:
    path = folder / "orin-llm" / "1-0.sock"
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        answering = threading.Thread(target=_say, args=(listener, hello), daemon=True)
        answering.start()
        with pytest.raises(OrinError):
            attach(path)
        answering.join()


def _say(listener: socket.socket, hello: str) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(hello.encode() + b"\n")
