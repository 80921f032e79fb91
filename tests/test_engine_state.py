"""Saved states: what is put back is what was saved, and nothing else is put back at all."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf_bytes import tiny_llama_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from kv_holder import KvShelf

from orin_llm.engine import EngineConfig
from orin_llm.engine.state import load_state, save_state
from orin_llm.engine.state_file import HEAD_BYTES, MAGIC, MAX_TOKENS
from orin_llm.errors import OrinError, StateFileError

TOKENS = [3 + place * 7 % 200 for place in range(700)]


def shelf(model: Path, *, n_pages: int = 1024, row_bytes: int = 24, **config: object) -> KvShelf:
    values = {"n_ctx": 2048, **config}
    return KvShelf(model, EngineConfig(**values), n_pages=n_pages, row_bytes=row_bytes)  # type: ignore[arg-type]


@pytest.fixture
def saved(tiny_model: Path, tmp_path: Path) -> Path:
    """A file of 40 tokens."""
    engine = shelf(tiny_model, page_size=8)
    engine.compute(TOKENS[:40])
    assert save_state(engine, TOKENS[:40], tmp_path / "saved.kv") == 40
    return tmp_path / "saved.kv"


@settings(max_examples=40)
@given(
    n_tokens=st.integers(1, 700),
    cached=st.integers(0, 700),
    page_size=st.sampled_from([8, 16, 256]),
    other_size=st.sampled_from([8, 32, 128]),
)
def test_rows_come_back_byte_for_byte_in_pages_of_any_size(
    tiny_model: Path,
    tmp_path_factory: pytest.TempPathFactory,
    n_tokens: int,
    cached: int,
    page_size: int,
    other_size: int,
) -> None:
    path = tmp_path_factory.mktemp("state") / "s.kv"
    engine = shelf(tiny_model, page_size=page_size)
    rows = engine.compute(TOKENS[:cached]) if cached else np.zeros((0, 24), np.uint8)
    n_saved = save_state(engine, TOKENS[:n_tokens], path)
    assert n_saved == min(n_tokens, cached) // page_size * page_size
    assert path.exists() == (n_saved > 0)
    if n_saved:
        other = shelf(tiny_model, page_size=other_size)
        loaded = load_state(other, path)
        n_whole = n_saved // other_size * other_size
        assert loaded == tuple(TOKENS[:n_whole])
        assert other.read_kv(TOKENS, 0, 2048) == rows[:n_whole].tobytes()


def test_what_is_cached_already_is_left_as_it_is(tiny_model: Path, saved: Path) -> None:
    engine = shelf(tiny_model, page_size=8)
    rows = engine.compute(TOKENS[:16])
    assert load_state(engine, saved) == tuple(TOKENS[:40])
    assert engine.read_kv(TOKENS, 0, 16) == rows.tobytes()


def test_what_does_not_fit_the_memory_is_left_out(tiny_model: Path, tmp_path: Path) -> None:
    engine = shelf(tiny_model, page_size=8)
    rows = engine.compute(TOKENS)
    assert save_state(engine, TOKENS, tmp_path / "s.kv") == 696
    # The second slice has no room; the last one, which is shorter, would have it.
    small = shelf(tiny_model, page_size=8, n_pages=1 + (256 + 200) // 8)
    assert load_state(small, tmp_path / "s.kv") == tuple(TOKENS[:256])
    assert small.read_kv(TOKENS, 0, 2048) == rows[:256].tobytes()


def test_what_is_cached_while_it_is_saved_leaves_no_gap(tiny_model: Path, tmp_path: Path) -> None:
    engine = shelf(tiny_model, page_size=8)
    rows = engine.compute(TOKENS[:300])
    read = engine.read_kv

    def read_and_go_on(tokens: list[int], first: int, n: int) -> bytes:
        data = read(tokens, first, n)
        if first:
            engine.compute(TOKENS)
        return data

    engine.read_kv = read_and_go_on  # type: ignore[assignment]
    assert save_state(engine, TOKENS, tmp_path / "s.kv") == 296
    other = shelf(tiny_model, page_size=8)
    load_state(other, tmp_path / "s.kv")
    assert other.read_kv(TOKENS, 0, 2048) == rows[:296].tobytes()


def refuses(engine: KvShelf, path: Path) -> str:
    """The refusal's message; the cache must not have changed."""
    before = engine.kv.counters()
    with pytest.raises(StateFileError) as caught:
        load_state(engine, path)
    after = engine.kv.counters()
    assert after == before
    assert engine.n_cached(TOKENS) == 0
    assert str(path) in str(caught.value)
    return str(caught.value)


@settings(max_examples=300)
@given(data=st.data())
def test_a_file_with_any_byte_changed_cut_or_added_is_refused(
    tiny_model: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = _whole(tiny_model, folder)
    engine = shelf(tiny_model, page_size=8)
    kind = data.draw(st.sampled_from(["flip", "cut", "extend", "insert", "remove"]))
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    if kind == "flip":
        changed[place] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del changed[place:]
    elif kind == "extend":
        changed += data.draw(st.binary(min_size=1, max_size=200))
    elif kind == "insert":
        changed[place:place] = data.draw(st.binary(min_size=1, max_size=40))
    else:
        del changed[place : place + data.draw(st.integers(1, 40))]
    path = folder / "changed.kv"
    path.write_bytes(changed)
    if changed != whole:
        refuses(engine, path)


def _whole(model: Path, folder: Path) -> bytes:
    path = folder / "whole.kv"
    if not path.exists():
        engine = shelf(model, page_size=8)
        engine.compute(TOKENS[:40])
        save_state(engine, TOKENS[:40], path)
    return path.read_bytes()


def forged(saved: Path, change: Callable[[dict[str, object]], object], **prefix: object) -> Path:
    """The file with its header changed and a checksum that is right."""
    data = bytearray(saved.read_bytes())
    _, version, n_json = struct.unpack_from("<8sII", data)
    head = json.loads(data[16 : 16 + n_json])
    change(head)
    text = prefix.get("text", json.dumps(head).encode())
    assert isinstance(text, bytes)
    length = prefix.get("length", len(text))
    version = prefix.get("version", version)
    data[:HEAD_BYTES] = (struct.pack("<8sII", MAGIC, version, length) + text).ljust(
        HEAD_BYTES, b"\0"
    )[:HEAD_BYTES]
    data[-32:] = hashlib.sha256(data[HEAD_BYTES:-32] + data[:HEAD_BYTES]).digest()
    path = saved.with_name("forged.kv")
    path.write_bytes(data)
    return path


def test_the_checksum_is_what_the_description_says(tiny_model: Path, saved: Path) -> None:
    unchanged = forged(saved, lambda head: None)
    assert unchanged.read_bytes() == saved.read_bytes()
    assert len(load_state(shelf(tiny_model, page_size=8), unchanged)) == 40


@pytest.mark.parametrize(
    "change, message",
    [
        ({"n_tokens": 1 << 62}, f"n_tokens in its header is {1 << 62}, outside 1 … {MAX_TOKENS}"),
        ({"n_tokens": -40}, "n_tokens in its header is -40"),
        ({"n_tokens": 0}, "n_tokens in its header is 0"),
        ({"n_tokens": 41}, "belong to its 41 tokens"),
        ({"n_tokens": 40.0}, "n_tokens in its header is no int"),
        ({"n_tokens": True}, "n_tokens in its header is no int"),
        ({"row_bytes": 1 << 40}, "row_bytes in its header"),
        ({"row_bytes": 0}, "row_bytes in its header is 0"),
        ({"row_bytes": -24}, "row_bytes in its header is -24"),
        # The same size with other factors: (52 + 4) * 20 = (24 + 4) * 40.
        ({"row_bytes": 52, "n_tokens": 20}, "another model"),
        ({"kv_type": "q8_0"}, "a KV cache of type q8_0, this one is of type f16"),
        ({"kv_type": "f16:bf16"}, "a KV cache of type f16:bf16, this one is of type f16"),
        ({"kv_type": "f16:f16"}, "a KV cache of type f16:f16, this one is of type f16"),
        ({"kv_type": 1}, "kv_type in its header is no str"),
        ({"model": "0" * 64}, "another model"),
        ({"long_context": True}, "a context of more than"),
        ({"more": 1}, "does not have just"),
    ],
)
def test_a_header_that_claims_what_is_not_so_is_refused(
    tiny_model: Path, saved: Path, change: dict[str, object], message: str
) -> None:
    path = forged(saved, lambda head: head.update(change))
    assert message in refuses(shelf(tiny_model, page_size=8), path)


@pytest.mark.parametrize(
    "text, length, message",
    [
        (b"{", 1, "its header is not JSON"),
        (b"\xff" * 8, 8, "its header is not JSON"),
        (b"[" * 1000, 1000, "its header"),
        (b"[1]", 3, "does not have just"),
        (b"{}", 1 << 31, f"{1 << 31} bytes long"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused(
    tiny_model: Path, saved: Path, text: bytes, length: int, message: str
) -> None:
    path = forged(saved, lambda head: None, text=text, length=length)
    assert message in refuses(shelf(tiny_model, page_size=8), path)


@pytest.mark.parametrize("version", [0, 2])
def test_another_version_is_told_apart_from_damage(
    tiny_model: Path, saved: Path, version: int
) -> None:
    path = forged(saved, lambda head: None, version=version)
    message = refuses(shelf(tiny_model, page_size=8), path)
    assert f"has version {version} of the format, 1 is understood" in message


def test_a_token_outside_the_vocabulary_is_refused(tiny_model: Path, saved: Path) -> None:
    engine = shelf(tiny_model, page_size=8)
    engine.n_vocab = max(TOKENS[:40])
    assert "outside the vocabulary" in refuses(engine, saved)


def test_a_state_of_another_model_is_refused(tiny_model: Path, saved: Path, tmp_path: Path) -> None:
    """Also of one that differs in its first weights alone, as a fine-tuned one does."""
    data = bytearray(tiny_llama_bytes())
    header = shelf(tiny_model).header
    offset = next(t.offset for t in header.tensors if t.name == "blk.1.attn_k.weight")
    data[offset] ^= 1
    tuned = tmp_path / "tuned.gguf"
    tuned.write_bytes(data)
    assert "was saved from another model" in refuses(shelf(tuned, page_size=8), saved)


def test_a_state_of_another_kv_type_is_refused(tiny_model: Path, saved: Path) -> None:
    message = refuses(shelf(tiny_model, page_size=8, kv_type="q8_0"), saved)
    assert "type f16, this one is of type q8_0" in message


def test_a_state_longer_than_the_context_is_refused(tiny_model: Path, saved: Path) -> None:
    message = refuses(shelf(tiny_model, page_size=8, n_ctx=32), saved)
    assert "holds 40 tokens, the context 32" in message


def test_an_engine_without_findable_pages_neither_saves_nor_loads(
    tiny_model: Path, saved: Path, tmp_path: Path
) -> None:
    for engine, reason in (
        (shelf(tiny_model, prefix_cache=False), "--no-prefix-cache"),
        (shelf(tiny_model, row_bytes=0), "keeps no pages"),
    ):
        assert reason in refuses(engine, saved)
        with pytest.raises(StateFileError, match=reason):
            save_state(engine, TOKENS, tmp_path / "new.kv")
        assert not (tmp_path / "new.kv").exists()


def test_what_is_no_state_file_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    engine = shelf(tiny_model)
    for content in (b"", b"GGUF", b'{"format": "orin-llm conversation"}' * 100):
        (tmp_path / "other").write_bytes(content)
        refuses(engine, tmp_path / "other")
    assert "is no saved state" in refuses(engine, tmp_path / "other")
    assert "cannot be read: No such file" in refuses(engine, tmp_path / "absent")
    assert "is no regular file" in refuses(engine, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is no regular file" in refuses(engine, tmp_path / "pipe")


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tiny_model: Path, saved: Path) -> None:
    before = saved.read_bytes()
    engine = shelf(tiny_model, page_size=8)
    engine.compute(TOKENS)
    read = engine.read_kv

    def interrupted(tokens: list[int], first: int, n: int) -> bytes:
        if first:
            raise KeyboardInterrupt
        return read(tokens, first, n)

    engine.read_kv = interrupted  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        save_state(engine, TOKENS, saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["saved.kv"]


def test_where_a_file_cannot_be_written_is_said(tiny_model: Path, tmp_path: Path) -> None:
    engine = shelf(tiny_model, page_size=8)
    engine.compute(TOKENS[:8])
    (tmp_path / "folder").mkdir()
    with pytest.raises(OrinError, match="folder cannot be written: Is a directory"):
        save_state(engine, TOKENS[:8], tmp_path / "folder")
    with pytest.raises(OrinError, match="absent.*No such file"):
        save_state(engine, TOKENS[:8], tmp_path / "absent" / "s.kv")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
