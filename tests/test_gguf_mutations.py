"""Whatever happens to its bytes, a file gives a header or ModelFileError, in little memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from gguf_bytes import bpe_vocab, tiny_llama, vocab_only
from gguf_worker import Worker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SMALL = {"n_embd": 8, "n_head": 2, "n_head_kv": 1, "n_ff": 8, "n_vocab": 8, "n_layer": 2}
IMAGES = {
    "llama": tiny_llama(**SMALL),
    "gemma3": tiny_llama(arch="gemma3", **SMALL),
    "vocabulary": vocab_only(bpe_vocab(40)),
}
BOUNDARIES = sorted(
    {0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 255, 256, 4096, 4097}
    | {(1 << bits) + delta for bits in (16, 24, 31, 32, 48, 62, 63) for delta in (-1, 0, 1)}
    | {2**64 - delta for delta in (1, 7, 8, 31, 32, 33)}
)

images = st.sampled_from(sorted(IMAGES))
checks = settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker("check")
    yield worker
    worker.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mutated.gguf"


def test_the_worker_passes_what_is_sound(worker: Worker, path: Path) -> None:
    for image in IMAGES.values():
        assert worker.answer(path, image.data).startswith("header")


@checks
@given(images, st.data())
def test_flipped_bits(worker: Worker, path: Path, name: str, data: st.DataObject) -> None:
    image = IMAGES[name]
    out = bytearray(image.data)
    end = image.marks["data"]
    flips = st.tuples(st.integers(0, end - 1), st.integers(0, 7))
    for at, bit in data.draw(st.lists(flips, min_size=1, max_size=8)):
        out[at] ^= 1 << bit
    worker.answer(path, bytes(out))


@checks
@given(images, st.data(), st.sampled_from(BOUNDARIES), st.sampled_from(["<I", "<Q"]))
def test_fields_replaced_by_boundary_values(
    worker: Worker, path: Path, name: str, data: st.DataObject, value: int, layout: str
) -> None:
    image = IMAGES[name]
    out = bytearray(image.data)
    mark = data.draw(st.sampled_from(sorted(image.marks)))
    raw = struct.pack("<Q", value)[: struct.calcsize(layout)]
    at = image.marks[mark]
    out[at : at + len(raw)] = raw
    worker.answer(path, bytes(out))


@checks
@given(images, st.data(), st.binary(max_size=64))
def test_bytes_replaced_inserted_or_removed(
    worker: Worker, path: Path, name: str, data: st.DataObject, new: bytes
) -> None:
    whole = IMAGES[name].data
    begin = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(begin, min(len(whole), begin + 64)))
    worker.answer(path, whole[:begin] + new + whole[end:])


@checks
@given(st.binary(max_size=256))
def test_anything_behind_a_good_start(worker: Worker, path: Path, tail: bytes) -> None:
    worker.answer(path, b"GGUF\x03\0\0\0" + tail)


@pytest.mark.parametrize("count", [1 << 24, 1 << 40, 2**64 - 1])
def test_declared_sizes_take_no_memory(worker: Worker, path: Path, count: int) -> None:
    image = IMAGES["llama"]
    for mark in ("tokenizer.ggml.tokens/count", "tokenizer.ggml.scores/count", "tensor_count"):
        broken = image.patched(mark, "<Q", count)
        assert worker.answer(path, broken.data) == "refused"
