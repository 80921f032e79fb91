"""What the KV cache may hold: limits, growth, shrinking, and rows as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from completions import (
    alone,
    assert_nothing_is_left,
    finish,
    prompt,
    start,
)

from orin_llm.engine import Engine, EngineConfig
from orin_llm.errors import PromptTooLong, UsageError


@pytest.fixture
def engine(tiny_model: Path) -> Iterator[Engine]:
    with Engine(tiny_model, EngineConfig(n_ctx=256, threads=1, chunk_size=32)) as engine:
        yield engine


def test_kv_memory_is_given_in_tokens_or_bytes_and_is_never_exceeded(tiny_model: Path) -> None:
    sizes = {}
    for limit in ("512", 512, "64kB", "64 kib"):
        config = EngineConfig(n_ctx=64, threads=1, kv_memory=limit)
        with Engine(tiny_model, config) as engine:
            for seed in range(20):
                finish(start(engine, prompt(seed, 50), 10))
            kv = engine.stats()["kv"]
            page_bytes = kv["bytes_reserved"] // engine.kv_pages
            assert kv["bytes_committed"] <= kv["bytes_reserved"] + page_bytes
            assert kv["evictions"] > 0
            sizes[limit] = kv["bytes_reserved"]
    assert sizes["512"] == sizes[512]
    assert 64000 - page_bytes < sizes["64kB"] <= 64000
    assert 65536 - page_bytes < sizes["64 kib"] <= 65536


@pytest.mark.parametrize(
    "limit", ["", "0", "-5", "1.5", "12 parsecs", "MiB", "0MiB", "1e3", "9" * 400 + "GB"]
)
def test_a_kv_memory_that_is_no_size_is_refused(limit: str) -> None:
    with pytest.raises(UsageError, match="--kv-memory"):
        EngineConfig(kv_memory=limit)


def test_a_context_larger_than_the_kv_memory_is_refused(tiny_model: Path) -> None:
    with pytest.raises(UsageError, match=r"128 tokens.*256.*--kv-memory.*--ctx-size"):
        Engine(tiny_model, EngineConfig(n_ctx=256, kv_memory=128))
    with pytest.raises(UsageError, match=r"holds 0 tokens: choose 16 or more"):
        Engine(tiny_model, EngineConfig(kv_memory="1KiB"))
    with Engine(tiny_model, EngineConfig(kv_memory=128, threads=1)) as engine:
        assert engine.n_ctx == 128  # where none was asked for
        with pytest.raises(PromptTooLong, match=r"holds 128 .* larger KV memory \(--kv-memory"):
            start(engine, prompt(1, 128))


def test_shrinking_gives_memory_back_and_growing_again_works(tiny_model: Path) -> None:
    with Engine(tiny_model, EngineConfig(n_ctx=64, threads=1, kv_memory=1024)) as engine:
        for seed in range(16):
            finish(start(engine, prompt(seed, 50), 10))
        before = engine.stats()["kv"]["bytes_committed"]
        engine.resize_kv(128)
        kv = engine.stats()["kv"]
        assert kv["bytes_committed"] <= before / 4
        assert kv["pages_cached"] + kv["pages_free"] == 8
        running = start(engine, prompt(1, 40), 20)
        finish(running)
        assert running.result.kv.pages_total == 8
        with pytest.raises(UsageError, match=r"expected 64 .* 1024"):
            engine.resize_kv(32)
        engine.resize_kv(1024)
        assert engine.stats()["kv"]["pages_free"] > 50


def test_rows_of_the_cache_can_be_read_and_put_back(tiny_model: Path, engine: Engine) -> None:
    tokens = prompt(1, 100)
    finish(start(engine, tokens, 4))
    rows = engine.read_kv(tokens, 0, 100)
    row = engine.kv_row_bytes
    assert len(rows) == 96 * row
    assert engine.read_kv(tokens, 32, 32) == rows[32 * row : 64 * row]
    config = EngineConfig(n_ctx=256, threads=1, page_size=8)
    with Engine(tiny_model, config) as other:
        assert other.read_kv(tokens, 0, 100) == b""
        half = 48 * row
        assert other.write_kv(tokens[:96], 48, rows[half:]) == 0  # the beginning is not there
        assert other.write_kv(tokens[:48], 0, rows[:half]) == 48
        assert other.write_kv(tokens[:96], 48, rows[half:]) == 96
        kv = other.stats()["kv"]
        assert kv["pages_cached"] == 12
        assert kv["lookups"] == kv["misses"] == kv["prefix_queries"] == 0  # no step has run
        assert other.read_kv(tokens, 0, 100) == rows
        completion = start(other, tokens, 4)
        assert finish(completion) == alone(tiny_model, tokens, 4)
        assert completion.result.cached_tokens == 96
        assert_nothing_is_left(other)
