"""Files on their way into memory while something else is done."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gguf_bytes import tiny_llama_bytes

from orin_llm.engine import Engine, EngineConfig, loaded_model
from orin_llm.engine.read_ahead import ReadAhead
from orin_llm.errors import OrinError
from orin_llm.host import page_cache
from orin_llm.host.memory import Memory


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_all_files_come_into_the_page_cache(tmp_path: Path) -> None:
    paths = [tmp_path / "first", tmp_path / "missing", tmp_path / "second"]
    for path in (paths[0], paths[2]):
        path.write_bytes(bytes(20 << 20))
        try:
            page_cache.drop(path)
        except OrinError:
            pytest.skip("the temporary folder lies in memory")
    with ReadAhead(paths):
        wait_until(lambda: [page_cache.cached_bytes(p) for p in paths[::2]] == [20 << 20] * 2)


def test_it_ends_when_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "holes"
    path.touch()
    os.truncate(path, 1 << 42)
    before = threading.active_count()
    with ReadAhead([path]):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("use_mmap", "free_bytes", "is_read_ahead"),
    [
        (True, 1 << 30, True),
        (False, 1 << 30, False),  # it is read around the page cache
        (True, 1000, False),  # the beginning would be gone at the end
    ],
)
def test_what_is_mapped_is_read_ahead(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    use_mmap: bool,
    free_bytes: int,
    is_read_ahead: bool,
) -> None:
    asked: list[list[Path]] = []

    class Recorded(ReadAhead):
        def __init__(self, paths: list[Path]) -> None:
            asked.append(paths)
            super().__init__(paths)

    monkeypatch.setattr(loaded_model, "ReadAhead", Recorded)
    memory = Memory(1 << 40, free_bytes, 0, 0, None, limited=False)
    monkeypatch.setattr(loaded_model, "read_memory", lambda: memory)
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_llama_bytes())
    config = EngineConfig(n_ctx=64, threads=1, gpu_layers=0, use_mmap=use_mmap, publish=False)
    Engine(path, config).close()
    assert asked == [[path] if is_read_ahead else []]
