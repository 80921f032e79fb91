"""Recordings: what is replayed is what was recorded, and what is no recording is said."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from monitor_support import START_MS, answer, engine, line, snapshot

from orin_llm.errors import OrinError, UsageError
from orin_llm.monitor import recording
from orin_llm.monitor.recording import MAX_LINE_BYTES, Recorder, Replay
from orin_llm.monitor.snapshot import Snapshot, Subject
from orin_llm.monitor.state import State
from orin_llm.monitor.thresholds import default_thresholds
from orin_llm.monitor.watch import Watch

BOARD = Subject("Board", True, l4t="36.4.3", jetpack="6.2", mode="MODE_30W", budget_w=30)
HEAD = json.dumps({"recording": 1, "subject": BOARD.to_json(), "interval_s": 1.0}) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def snapshots(count: int = 4) -> Iterator[Snapshot]:
    for n in range(count):
        answers = [answer(number, ttft_ms=900) for number in range(1, 12 * n)][-16:]
        values = line(n, decoded=30 * n, steps=10 * n, answers=answers, kv=(n, 1, 9))
        yield snapshot(
            n,
            engine(values),
            temperatures_c={"tj": 90.0 if n == 1 else 20.0},
            power_w=31.0,
            throttled=(),
            over_current_events=n,
            sources=("tegrastats",),
        )


def record(file: Path, count: int = 4) -> None:
    recorder = Recorder(file, BOARD, 1.0)
    for n, taken in enumerate(snapshots(count)):
        recorder.add(taken, {"jtop": "the service has ended"} if n == 2 else {})
    recorder.close()
    assert recorder.problem == ""


def replayed(file: Path) -> list[Snapshot]:
    replay = Replay(file)
    try:
        return list(iter(replay.next, None))
    finally:
        replay.close()


def states(watch: Watch, taken: list[tuple[Snapshot, dict[str, str]]]) -> list[State]:
    return [watch.update(one, problems) for one, problems in taken]


def test_what_is_replayed_gives_the_states_that_were_seen(file: Path) -> None:
    record(file)
    watch, again = (Watch(default_thresholds(BOARD.budget_w)) for _ in range(2))
    replay = Replay(file)
    assert (replay.subject, replay.interval_s) == (BOARD, 1.0)
    for n, taken in enumerate(snapshots()):
        problems = {"jtop": "the service has ended"} if n == 2 else {}
        seen, was = replay.next(), watch.update(taken, problems)
        assert seen is not None and replay.problems == problems
        assert again.update(seen, replay.problems) == was
        assert bool(was.events) == (n in (1, 2))
    assert replay.next() is None and replay.note == ""
    replay.close()


def test_each_snapshot_is_in_the_file_as_soon_as_it_is_added(file: Path) -> None:
    recorder = Recorder(file, BOARD, 1.0)
    for n, taken in enumerate(snapshots(), 1):
        recorder.add(taken)
        assert len(replayed(file)) == n
    recorder.close()


def test_a_file_that_is_there_is_never_written_over(file: Path) -> None:
    file.write_text("mine")
    with pytest.raises(UsageError, match="is there already.*another name, or remove it"):
        Recorder(file, BOARD, 1.0)
    assert file.read_text() == "mine"


def test_where_no_file_can_be_made_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none/run.jsonl cannot be made: No such file"):
        Recorder(tmp_path / "none" / "run.jsonl", BOARD, 1.0)


def test_a_full_disk_ends_the_recording_and_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(file, BOARD, 1.0)
    first, second, third, _ = snapshots()
    recorder.add(first)

    class Full:
        """The file on a disk that has room for 10 bytes more."""

        left = 10

        def write(self, data: memoryview) -> int:
            if self.left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.left -= (taken := min(len(data), self.left))
            with file.open("ab") as behind:
                behind.write(data[:taken])
            return taken

        def close(self) -> None: ...

    disk = Full()
    monkeypatch.setattr(recorder, "_file", disk)
    recorder.add(second)
    assert "ends here, nothing more is recorded: No space left" in recorder.problem
    size = file.stat().st_size
    disk.left = 1 << 20  # what comes now would stand behind half a line
    recorder.add(third)
    recorder.close()
    assert file.stat().st_size == size
    assert replayed(file) == [first]


def test_numbers_that_are_none_are_left_out_and_the_rest_is_kept(file: Path) -> None:
    recorder = Recorder(file, BOARD, 1.0)
    broken = snapshot(
        0, engine({"steps": math.nan, "kv": [math.inf, 1]}), power_w=math.nan, gpu_percent=5.0
    )
    recorder.add(broken)
    (seen,) = replayed(file)
    assert (seen.reading.power_w, seen.reading.gpu_percent) == (None, 5)
    assert seen.engines[0].statistics == {"kv": [1]}


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_a_last_line_that_was_cut_off_is_left_out_and_told(file: Path, cut: int) -> None:
    record(file)
    file.write_bytes(file.read_bytes()[:-cut])
    replay = Replay(file)
    seen = list(iter(replay.next, None))
    whole = cut == 1  # the end of the line alone
    assert len(seen) == (4 if whole else 3)
    assert replay.note == ("" if whole else f"{file} was cut off in line 5, which is left out")
    replay.close()


@pytest.mark.parametrize(
    "bad",
    [
        b"\n",
        b"no JSON\n",
        b"[]\n",
        b"{}\n",
        b'{"at_ms": 1, "reading": 5}\n',
        b'{"at_ms": 1, "reading": {"at_ms": 1, "power_w": "much"}}\n',
        b'{"at_ms": 1, "reading": {"at_ms": 1}, "engines": [3]}\n',
        b'{"at_ms": 1, "reading": {"at_ms": 1}, "problems": {"a": 3}}\n',
        b'{"at_ms": 1, "reading": {"at_ms": 1' + b"0" * 400 + b"}}\n",
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
    ],
)
def test_a_bad_line_is_an_error_with_its_number(file: Path, bad: bytes) -> None:
    record(file)
    head, first, *rest = file.read_bytes().splitlines(keepends=True)
    for after in (rest, []):
        file.write_bytes(b"".join([head, first, bad, *after]))
        replay = Replay(file)
        assert replay.next() is not None
        with pytest.raises(OrinError, match=f"{file}, line 3, is no snapshot: ."):
            replay.next()
        replay.close()


def test_a_line_without_end_is_not_read_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_LINE_BYTES", 1000)
    file.write_text(HEAD + "x" * 2000)
    replay = Replay(file)
    with pytest.raises(OrinError, match="line 2, is longer than 1000 bytes"):
        replay.next()
    replay.close()
    assert MAX_LINE_BYTES > 64 * 70_000  # of as many engines as are watched at once


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "run.jsonl is empty: no recording of `orin-llm monitor --record`, which begins"),
        (b"\x1f\x8b\x08", "is no recording"),
        (b'{"at_ms": 1}\n', 'is no recording .*expected {"recording": 1'),
        (b"[]\n", "is no recording .*expected a JSON object"),
        (b"x" * 100, "is no recording"),
        (HEAD[:-10].encode(), "is no recording"),
        (b'{"recording": 2}\n', "its version is 2, and 1 is understood; use the orin-llm"),
        (b'{"recording": 1}\n', 'expected {"recording": 1'),
        (b'{"recording": 1, "subject": {}, "interval_s": 0}\n', "expected a number above 0"),
        (b'{"recording": 1, "subject": {}, "interval_s": NaN}\n', "expected a number above 0"),
        (b'{"recording": 1, "subject": {"name": 3}, "interval_s": 1}\n', "name: expected text"),
    ],
)
def test_what_is_no_recording_is_said(file: Path, content: bytes, said: str) -> None:
    file.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        Replay(file)
    assert str(file) in str(caught.value)


def test_a_recording_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none cannot be read: No such file"):
        Replay(tmp_path / "none")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        Replay(tmp_path)


def test_members_that_are_new_do_not_matter(file: Path) -> None:
    values = {**snapshot(0).to_json(), "new": 1}
    file.write_text(
        HEAD.replace('"interval_s"', '"new": [], "interval_s"') + json.dumps(values) + "\n"
    )
    assert [seen.at_ms for seen in replayed(file)] == [START_MS]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(), JSON, max_size=4), st.text(), st.dictionaries(st.text(), st.text())
)
def test_whatever_engines_publish_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    values: dict[str, Any],
    name: str,
    problems: dict[str, str],
) -> None:
    file = tmp_path_factory.mktemp("any") / "run.jsonl"
    taken = snapshot(1, engine(values, name))
    recorder = Recorder(file, BOARD, 0.1)
    recorder.add(taken, problems)
    recorder.close()
    replay = Replay(file)
    assert replay.next() == taken and replay.problems == problems
    replay.close()
