"""What is in the page cache is told, put there and taken out."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest
from load_support import make_cold

from orin_llm.errors import OrinError
from orin_llm.host import page_cache


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    """A file of 40 pages and a few bytes that can leave the page cache."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(40 * mmap.PAGESIZE + 5))
    make_cold(path)
    return path


def test_what_was_read_is_cached_until_it_is_dropped(on_disk: Path) -> None:
    assert page_cache.cached_bytes(on_disk) == 0
    page_cache.fill(on_disk)
    assert page_cache.cached_bytes(on_disk) == on_disk.stat().st_size
    page_cache.drop(on_disk)
    assert page_cache.cached_bytes(on_disk) == 0


def test_a_part_that_was_read_counts_alone(on_disk: Path) -> None:
    with on_disk.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # nothing is read ahead
        os.pread(file.fileno(), 10, 3 * mmap.PAGESIZE)
    cached = page_cache.cached_bytes(on_disk)
    assert mmap.PAGESIZE <= cached < on_disk.stat().st_size


def test_a_direct_read_leaves_the_page_cache_alone(on_disk: Path) -> None:
    rate = page_cache.direct_bytes_per_s([on_disk, on_disk])
    assert rate is not None and rate > 0
    assert page_cache.cached_bytes(on_disk) == 0


def test_what_a_program_has_mapped_cannot_be_dropped_and_that_is_told(
    on_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "_DROP_WAIT_S", 0)
    with (
        on_disk.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping,
    ):
        assert len(mapping[:]) == on_disk.stat().st_size
        with pytest.raises(OrinError, match="stay in the page cache: a cold start"):
            page_cache.drop(on_disk)
    page_cache.drop(on_disk)


def test_a_file_that_does_not_stay_in_memory_makes_no_warm_start(
    on_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "cached_bytes", lambda path: 4096)
    with pytest.raises(OrinError, match=r"159.7 kB of 163.8 kB do not stay"):
        page_cache.fill(on_disk)


def test_nothing_of_an_empty_file_is_cached(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    assert page_cache.cached_bytes(path) == 0
    page_cache.drop(path)
    page_cache.fill(path)
