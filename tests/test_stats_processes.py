"""Where sockets lie, and which remain: several engines and processes, killed and forked ones."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from stats_support import Source, first_line, publishing, until

from orin_llm.errors import OrinError
from orin_llm.stats import StatsPublisher, attach, running_engines
from orin_llm.stats.folder import folders

OTHER_USER = 12345


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the sockets, which is not there yet; no other one is looked into."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("orin_llm.stats.folder._LOGINS", tmp_path / "run-user")
    return tmp_path / "orin-llm"


@pytest.fixture
def publishers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def publish(stack: ExitStack, source: Source) -> StatsPublisher:
    publisher = StatsPublisher(source)
    stack.callback(publisher.close)
    return publisher


def problem(source: Source) -> str:
    publisher = StatsPublisher(source)
    assert publisher.path is None and publisher.problem is not None
    publisher.close()
    return publisher.problem


def test_engines_of_one_process_have_sockets_of_their_own(
    folder: Path, publishers: ExitStack
) -> None:
    assert running_engines() == []
    sources = [Source("a.gguf"), Source("b.gguf")]
    paths = [publish(publishers, source).path for source in sources]
    assert paths == [folder / f"{os.getpid()}-{number}.sock" for number in (0, 1)]
    assert [(e.path, e.model) for e in running_engines()] == [
        (paths[0], "a.gguf"),
        (paths[1], "b.gguf"),
    ]


def test_engines_of_other_processes_are_found_also_when_they_start_together(tmp_path: Path) -> None:
    names = {f"{number}.gguf" for number in range(4)}
    processes = [publishing(name, tmp_path) for name in names]
    try:
        assert len({first_line(process) for process in processes}) == 4
        found = running_engines()
        assert {engine.model for engine in found} == names
        assert {engine.pid for engine in found} == {process.pid for process in processes}
        with attach(found[0].path) as attached:
            assert next(attached)["answer"] == 42
    finally:
        for process in processes:
            process.communicate()
    assert running_engines() == [] and list((tmp_path / "orin-llm").iterdir()) == []


def test_a_killed_process_leaves_a_socket_that_the_next_one_removes(
    tmp_path: Path, publishers: ExitStack
) -> None:
    process = publishing("killed.gguf", tmp_path)
    path = first_line(process)
    with attach(path, interval_ms=60_000) as attached:
        next(attached)
        process.kill()
        assert list(attached) == []
    process.communicate()
    assert path.is_socket() and running_engines() == []
    with pytest.raises(OrinError, match="no engine answers at .*: Connection refused"):
        attach(path)
    source = Source()
    assert publish(publishers, source).path != path
    assert not path.exists()


def test_a_stale_socket_with_this_process_s_number_is_replaced(
    folder: Path, publishers: ExitStack
) -> None:
    folder.mkdir()
    stale = folder / f"{os.getpid()}-0.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(stale))
    source = Source()
    assert publish(publishers, source).path == stale
    assert len(running_engines()) == 1


def test_what_is_no_socket_of_ours_is_left_alone(folder: Path, publishers: ExitStack) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "1-0.sock").write_text("no socket")
    source = Source()
    publish(publishers, source)
    assert (folder / "notes.txt").read_text() == "mine"
    assert len(running_engines()) == 1


def test_a_stopped_engine_does_not_hold_up_who_looks_for_others(
    tmp_path: Path, publishers: ExitStack
) -> None:
    process = publishing("stopped.gguf", tmp_path)
    first_line(process)
    process.send_signal(signal.SIGSTOP)
    status = Path(f"/proc/{process.pid}/status")
    until(lambda: "T (stopped)" in status.read_text(), "its standstill")
    source = Source("running.gguf")
    publish(publishers, source)
    assert [engine.model for engine in running_engines()] == ["running.gguf"]
    process.kill()
    process.communicate()


FORKS = {
    "the child ends": "os._exit(0) if pid else sys.exit(0)",
    "the child closes": "publisher.close()",
    "the child frees": "del source, publisher",
    "the child publishes, too": "source = Source(); publisher = StatsPublisher(source)",
}


@pytest.mark.parametrize("deed", FORKS.values(), ids=FORKS)
def test_a_forked_child_leaves_the_parent_s_socket_to_it(tmp_path: Path, deed: str) -> None:
    rest = f"""
    import os
    pid = os.fork()
    if pid == 0:
        {deed}
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    print("forked", flush=True)
    sys.stdin.read()
    """
    process = publishing("parent.gguf", tmp_path, rest.strip())
    path = first_line(process)
    assert first_line(process) == Path("forked")
    assert [engine.path for engine in running_engines()] == [path]
    with attach(path, interval_ms=20) as attached:
        assert [next(attached)["answer"] for _ in range(3)] == [42] * 3
    process.communicate()
    assert process.returncode == 0 and not path.exists()


def test_a_child_that_outlives_a_killed_parent_does_not_answer_in_its_name(tmp_path: Path) -> None:
    rest = """
    import os
    if os.fork() == 0:
        print("forked", flush=True)
        sys.stdin.read()
        os._exit(0)
    os.wait()
    """
    process = publishing("parent.gguf", tmp_path, rest.strip())
    path = first_line(process)
    assert first_line(process) == Path("forked")
    with attach(path, interval_ms=60_000) as attached:
        next(attached)
        process.kill()
        assert list(attached) == []

    def is_refused() -> bool:
        try:
            attach(path).close()
        except OrinError as error:
            return "Connection refused" in str(error)
        return False

    until(is_refused, "the socket's end")  # its files are closed one after the other
    process.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_neither_used_nor_believed(folder: Path) -> None:
    folder.mkdir()
    os.chown(folder, OTHER_USER, -1)
    assert f"{folder} belongs to user {OTHER_USER}, not to 0" in problem(Source())
    assert list(folder.iterdir()) == []
    os.chown(folder, 0, -1)
    with ExitStack() as stack:
        source = Source()
        publish(stack, source)
        assert len(running_engines()) == 1
        os.chown(folder, OTHER_USER, -1)
        assert running_engines() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_run_time_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    """Root with the variable of the user who called sudo."""
    assert folders() == [tmp_path / "orin-llm", tmp_path / "orin-llm-0"]
    os.chown(tmp_path, OTHER_USER, -1)
    assert folders() == [tmp_path / "orin-llm-0"]


def test_a_link_in_the_folder_s_place_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    folder.symlink_to(tmp_path / "elsewhere")
    assert "is no folder" in problem(Source())
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_an_open_folder_is_closed_to_others(folder: Path, publishers: ExitStack) -> None:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    source = Source()
    publish(publishers, source)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_run_time_folder_the_temporary_one_serves(
    tmp_path: Path, publishers: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("", "relative", "/absent"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", value)
        assert folders() == [tmp_path / f"orin-llm-{os.geteuid()}"]
    source = Source()
    path = publish(publishers, source).path
    assert path is not None and path.parent == tmp_path / f"orin-llm-{os.geteuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # as a login has it
    assert [engine.path for engine in running_engines()] == [path]


def test_without_the_variable_engines_that_a_login_started_are_found(
    tmp_path: Path, publishers: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service of the system has no XDG_RUNTIME_DIR; a login has."""
    login = tmp_path / "run-user" / str(os.geteuid())
    login.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(login))
    sources = [Source("login.gguf"), Source("service.gguf")]
    path = publish(publishers, sources[0]).path
    assert path is not None and path.parent == login / "orin-llm"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    own = publish(publishers, sources[1]).path
    assert own is not None and own.parent == tmp_path / f"orin-llm-{os.geteuid()}"
    assert {engine.path for engine in running_engines()} == {own, path}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_login_s_folder_of_another_user_is_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = tmp_path / "run-user" / "0"
    login.mkdir(parents=True)
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert folders() == [tmp_path / "orin-llm-0", login / "orin-llm"]
    os.chown(login, OTHER_USER, -1)
    assert folders() == [tmp_path / "orin-llm-0"]


def test_a_folder_that_cannot_be_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc/self")
    assert "statistics are not published: " in problem(Source())
    assert "/proc/self/orin-llm" in problem(Source())


def test_a_path_too_long_for_a_socket_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / ("x" * 100)
    base.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
    assert "is too long for a socket: at most 107 bytes" in problem(Source())
    assert list((base / "orin-llm").iterdir()) == []


def test_a_process_that_gets_no_more_threads_is_told_so(folder: Path) -> None:
    files = os.listdir("/proc/self/fd")
    usual = threading.stack_size(1 << 46)  # more than there are addresses
    try:
        assert "statistics are not published: can't start new thread" in problem(Source())
    finally:
        threading.stack_size(usual)
    assert list(folder.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == len(files)
