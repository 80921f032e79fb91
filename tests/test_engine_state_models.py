"""Which model a state belongs to: what its fingerprint and its context say."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_headers import FakeTensor, header
from gguf_bytes import Shape, Typed, model_metadata, model_tensors, spm_vocab, string, write_gguf
from kv_holder import KvShelf

from orin_llm.engine import EngineConfig
from orin_llm.engine.fingerprint import model_fingerprint
from orin_llm.engine.state import load_state, save_state
from orin_llm.errors import ModelFileError, StateFileError

SHAPE = Shape(n_embd=32, n_ff=32, n_vocab=16, n_layer=2)
TENSORS = model_tensors(SHAPE)
ENTRIES = {**model_metadata(SHAPE), **spm_vocab(SHAPE.n_vocab)}


def write(path: Path, entries: dict[str, Typed], tensors: list[object]) -> Path:
    path.write_bytes(write_gguf(entries, tensors).data)  # type: ignore[arg-type]
    return path


def test_a_model_has_one_fingerprint_in_one_file_or_several(tmp_path: Path) -> None:
    whole = write(tmp_path / "m.gguf", ENTRIES, TENSORS)

    def numbers(part: int) -> dict[str, Typed]:
        return {
            "split.no": Typed("u16", part),
            "split.count": Typed("u16", 2),
            "split.tensors.count": Typed("i32", len(TENSORS)),
        }

    first = write(tmp_path / "m-00001-of-00002.gguf", {**ENTRIES, **numbers(0)}, TENSORS[:5])
    write(tmp_path / "m-00002-of-00002.gguf", numbers(1), TENSORS[5:])
    assert model_fingerprint(first) == model_fingerprint(whole)


def test_metadata_and_the_beginning_of_every_tensor_count(tmp_path: Path) -> None:
    image = write_gguf(ENTRIES, TENSORS)
    path = tmp_path / "m.gguf"
    path.write_bytes(image.data)
    seen = {model_fingerprint(path)}
    for tensor in TENSORS:
        data = bytearray(image.data)
        data[image.marks[f"{tensor.name}/data"]] ^= 1
        path.write_bytes(data)
        seen.add(model_fingerprint(path))
    seen.add(model_fingerprint(write(path, {**ENTRIES, "general.name": string("x")}, TENSORS)))
    assert len(seen) == len(TENSORS) + 2


def test_a_missing_model_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="absent.gguf"):
        model_fingerprint(tmp_path / "absent.gguf")


def test_keys_of_the_two_sets_of_rope_factors_are_not_mixed(
    tiny_model: Path, tmp_path: Path
) -> None:
    def shelf(n_ctx: int) -> KvShelf:
        engine = KvShelf(tiny_model, EngineConfig(n_ctx=n_ctx))
        engine.header = header(
            "phi3",
            (FakeTensor("rope_factors_long.weight", "F32", (48,)),),
            rope__scaling__original_context_length=4096,
        )
        return engine

    short, long = shelf(4096), shelf(4097)
    tokens = list(range(32))
    for engine, path in ((short, tmp_path / "short"), (long, tmp_path / "long")):
        engine.compute(tokens)
        assert save_state(engine, tokens, path) == 32
        assert len(load_state(engine, path)) == 32
    with pytest.raises(StateFileError, match="with a context of at most 4096 tokens"):
        load_state(shelf(8192), tmp_path / "short")
    with pytest.raises(StateFileError, match="with a context of more than 4096 tokens"):
        load_state(shelf(2048), tmp_path / "long")
