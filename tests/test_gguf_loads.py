"""What the preflight accepts, llama.cpp loads or refuses: it never ends the interpreter."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf_bytes import Image, bpe_vocab, spm_vocab, tiny_experts, tiny_llama
from gguf_strategies import ARCHITECTURES, models
from gguf_worker import Worker
from hypothesis import HealthCheck, given, settings


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker("load")
    yield worker
    worker.close()


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("vocab", [spm_vocab, bpe_vocab])
def test_sound_models_run(worker: Worker, tmp_path: Path, arch: str, vocab: Any) -> None:
    image = tiny_llama(arch=arch, vocab=vocab(300))
    assert worker.answer(tmp_path / "sound.gguf", image.data) == "ran"


@pytest.mark.parametrize("arch", ["llama", "mistral3", "minicpm", "qwen3moe"])
def test_sound_models_of_experts_run(worker: Worker, tmp_path: Path, arch: str) -> None:
    assert worker.answer(tmp_path / "sound.gguf", tiny_experts(arch).data) == "ran"


# Derandomized: a finding must not stop a change that has nothing to do with it.
@settings(
    max_examples=400,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(models())
def test_changed_models_run_or_raise(worker: Worker, tmp_path: Path, data: bytes) -> None:
    assert worker.answer(tmp_path / "changed.gguf", data) in ("refused", "raised", "ran")


@pytest.mark.parametrize("fill", [b"\xff", b"\x7f", b"\0", b"\x80"])
def test_weights_of_any_value_run(worker: Worker, tmp_path: Path, fill: bytes) -> None:
    image = tiny_llama()
    start = image.marks["data"]
    broken = Image(image.data[:start] + fill * (len(image.data) - start), image.marks)
    assert worker.answer(tmp_path / "weights.gguf", broken.data) in ("raised", "ran")


def test_a_nan_in_a_norm_runs(worker: Worker, tmp_path: Path) -> None:
    image = tiny_llama().patched(
        "output_norm.weight/data", "<I", struct.unpack("<I", b"\xff" * 4)[0]
    )
    assert worker.answer(tmp_path / "nan.gguf", image.data) in ("raised", "ran")
