"""Trial reads of real files, by the page cache or past it."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orin_llm.device.probes.disk import DiskSpeed, read_speed
from orin_llm.errors import ModelFileError

MIB = 1 << 20
CHUNK = 8 * MIB
PAGE = mmap.PAGESIZE


def sparse(path: Path, size: int) -> Path:
    path.write_bytes(b"")
    os.truncate(path, size)
    return path


def takes_direct_reads(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    return True


def refuse_direct(monkeypatch: pytest.MonkeyPatch, where: str, reason: int) -> None:
    """A file system that refuses direct reads when a file is opened, or only when it is read."""
    real_open, real_preadv = os.open, os.preadv
    direct: set[int] = set()

    def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_DIRECT and where == "open":
            raise OSError(reason, os.strerror(reason))
        file = real_open(path, flags, *rest, **more)
        (direct.add if flags & os.O_DIRECT else direct.discard)(file)
        return file

    def read(file: int, *rest: Any) -> int:
        if file in direct:
            raise OSError(reason, os.strerror(reason))
        return real_preadv(file, *rest)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "preadv", read)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(offset, bytes) of each read."""
    done: list[tuple[int, int]] = []
    real = os.preadv

    def recorded(file: int, buffers: list[memoryview], offset: int) -> int:
        got = real(file, buffers, offset)
        done.append((offset, got))
        return got

    monkeypatch.setattr(os, "preadv", recorded)
    return done


SIZES = (1, PAGE - 1, PAGE, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 12345)


@pytest.mark.parametrize("size", SIZES)
def test_every_byte_is_read_once(tmp_path: Path, reads: list[tuple[int, int]], size: int) -> None:
    path = sparse(tmp_path / "model.gguf", size)
    speed = read_speed(path, most_seconds=60)
    assert speed.bytes == size and speed.seconds > 0
    assert speed.bytes_per_s == pytest.approx(size / speed.seconds)
    assert speed.direct == takes_direct_reads(path)
    position = 0
    for offset, got in sorted(reads):
        assert offset == position
        position += got
    assert position == size


def test_what_is_in_the_page_cache_is_passed_by(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(bytes(CHUNK))
    assert read_speed(path).direct == takes_direct_reads(path)


def test_an_empty_file_has_no_speed(tmp_path: Path) -> None:
    speed = read_speed(sparse(tmp_path / "empty", 0))
    assert (speed.bytes, speed.bytes_per_s) == (0, 0.0)


def test_no_more_than_half_a_gibibyte_is_read(tmp_path: Path, reads: list[tuple[int, int]]) -> None:
    path = sparse(tmp_path / "model.gguf", 600 * MIB)
    assert read_speed(path, most_seconds=600).bytes == 512 * MIB
    assert max(offset + got for offset, got in reads) == 512 * MIB


def test_a_bound_within_a_chunk_is_kept(tmp_path: Path) -> None:
    path = sparse(tmp_path / "model.gguf", 2 * CHUNK)
    assert read_speed(path, most_bytes=3 * PAGE).bytes == 3 * PAGE


def test_when_time_is_up_the_first_chunk_is_what_was_read(tmp_path: Path) -> None:
    path = sparse(tmp_path / "model.gguf", 100 * CHUNK)
    assert read_speed(path, most_seconds=-1).bytes == CHUNK


@pytest.mark.parametrize("where", ["open", "read"])
@pytest.mark.parametrize("reason", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_that_refuses_direct_reads_is_read_through_the_cache_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, reason: int
) -> None:
    path = sparse(tmp_path / "model.gguf", 3 * CHUNK + 5)
    refuse_direct(monkeypatch, where, reason)
    forgotten: list[int] = []
    advise = os.posix_fadvise

    def recorded(file: int, offset: int, length: int, advice: int) -> None:
        advise(file, offset, length, advice)
        forgotten.append(advice)

    monkeypatch.setattr(os, "posix_fadvise", recorded)
    speed = read_speed(path, most_seconds=60)
    assert (speed.bytes, speed.direct) == (3 * CHUNK + 5, False)
    assert forgotten == [os.POSIX_FADV_DONTNEED]


def test_a_file_that_the_kernel_gives_in_small_parts_is_read_to_its_end() -> None:
    path = Path("/sys/kernel/btf/vmlinux")
    if not path.exists():
        pytest.skip("this kernel has no such file")
    speed = read_speed(path, most_seconds=60)
    assert (speed.bytes, speed.direct) == (path.stat().st_size, takes_direct_reads(path))


def test_a_file_in_memory_can_be_read() -> None:
    path = Path(f"/dev/shm/orin-llm-test-{os.getpid()}")
    try:
        path.write_bytes(bytes(CHUNK + 1))
        assert read_speed(path).bytes == CHUNK + 1
    finally:
        path.unlink(missing_ok=True)


def test_a_file_that_shrinks_while_it_is_read_ends_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sparse(tmp_path / "model.gguf", 4 * CHUNK)
    real = os.preadv

    def shrunk(*arguments: Any) -> int:
        os.truncate(path, PAGE)
        return real(*arguments)

    monkeypatch.setattr(os, "preadv", shrunk)
    assert read_speed(path).bytes == PAGE


def broken_disk(*_: Any) -> int:
    raise OSError(errno.EIO, "Input/output error")


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "cannot be read: No such file"),
        (Path.mkdir, "is not a file"),
        (make_fifo, "is not a file"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_it(
    tmp_path: Path, make: Callable[[Path], None], says: str
) -> None:
    path = tmp_path / "model.gguf"
    make(path)
    with pytest.raises(ModelFileError, match=says) as error:
        read_speed(path)
    assert error.value.path == str(path) and str(path) in str(error.value)


def test_a_disk_that_fails_is_an_error_and_nothing_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sparse(tmp_path / "model.gguf", 100 * CHUNK)
    files, threads = os.listdir("/proc/self/fd"), threading.active_count()
    monkeypatch.setattr(os, "preadv", broken_disk)
    with pytest.raises(ModelFileError, match="cannot be read: Input/output error"):
        read_speed(path, most_seconds=600)
    assert os.listdir("/proc/self/fd") == files
    assert threading.active_count() == threads


def test_ctrl_c_ends_all_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sparse(tmp_path / "model.gguf", 1000 * CHUNK)
    real, count, lock = os.preadv, [0], threading.Lock()

    def interrupted(*arguments: Any) -> int:
        with lock:
            count[0] += 1
            if count[0] == 50:  # all threads are at it
                os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        return real(*arguments)

    threads = threading.active_count()
    monkeypatch.setattr(os, "preadv", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_speed(path, 1000 * CHUNK, most_seconds=600)
    assert threading.active_count() == threads
    assert count[0] < 1000


def test_speed_is_bytes_by_seconds() -> None:
    assert DiskSpeed(300, 2.0, direct=True).bytes_per_s == 150.0
    assert DiskSpeed(0, 0.0, direct=True).bytes_per_s == 0.0
