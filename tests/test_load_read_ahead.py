"""Files on their way into memory while something else is done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gguf_bytes import Tensor, tiny_llama_bytes
from load_support import make_cold, thread_ids
from stats_support import until

from orin_llm import _native
from orin_llm.engine import EngineConfig, loaded_model
from orin_llm.gguf.header import read_header
from orin_llm.host import page_cache
from orin_llm.host.memory import Memory

SIZE = (20 << 20) + 5  # several parts, and a rest


def test_all_files_come_into_the_page_cache(tmp_path: Path) -> None:
    paths = [tmp_path / "first", tmp_path / "missing", tmp_path, tmp_path / "second"]
    for path in (paths[0], paths[3]):
        path.write_bytes(bytes(SIZE))
        make_cold(path)
    with _native.ReadAhead([os.fsencode(path) for path in paths]):
        for path in (paths[3], paths[0]):
            until(lambda path=path: page_cache.cached_bytes(path) == SIZE, path.name)  # type: ignore[misc]


def test_it_ends_when_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "holes"
    path.touch()
    os.truncate(path, 1 << 42)
    before, files = thread_ids(), len(os.listdir("/proc/self/fd"))
    with _native.ReadAhead([os.fsencode(path)]):
        assert len(thread_ids() - before) == 2
    until(lambda: thread_ids() <= before, "the threads' end")
    assert len(os.listdir("/proc/self/fd")) == files


@pytest.mark.parametrize(
    ("use_mmap", "free_bytes", "table", "is_read_ahead"),
    [
        (True, 1 << 30, {}, True),
        (False, 1 << 30, {}, False),  # it is read around the page cache
        (True, 1000, {}, False),  # the beginning would be gone at the end
        (True, 1 << 30, {"t": Tensor("per_layer_token_embd.weight", (64, 300))}, False),
    ],
)
def test_what_is_mapped_whole_is_read_ahead(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    use_mmap: bool,
    free_bytes: int,
    table: dict[str, Tensor],
    is_read_ahead: bool,
) -> None:
    memory = Memory(1 << 40, free_bytes, 0, 0, None, limited=False)
    monkeypatch.setattr(loaded_model, "read_memory", lambda: memory)
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_llama_bytes(tensors=table))
    config = EngineConfig(gpu_layers=0, use_mmap=use_mmap)
    found = loaded_model._files_to_read_ahead(path, read_header(path), config)
    assert found == ([os.fsencode(path)] if is_read_ahead else [])
