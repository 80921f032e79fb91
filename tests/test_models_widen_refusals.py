"""What is not widened, and files that are kept as they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import gguf_bytes
import pytest

from orin_llm._native import check_gguf
from orin_llm.errors import ModelFileError, UsageError
from orin_llm.models.widen import widen


@pytest.mark.parametrize(
    ("image", "field"),
    [
        (gguf_bytes.tiny_llama_bytes(n_embd=256, n_ff=512), ""),
        (gguf_bytes.tiny_llama_bytes(arch="qwen2"), "general.architecture"),
        (
            gguf_bytes.tiny_llama_bytes(
                metadata={
                    "llama.attention.key_length": gguf_bytes.u32(32),
                    "llama.attention.value_length": gguf_bytes.u32(32),
                    "llama.rope.dimension_count": gguf_bytes.u32(32),
                },
                tensors={
                    f"blk.{layer}.{name}.weight": gguf_bytes.Tensor(
                        f"blk.{layer}.{name}.weight", size
                    )
                    for layer in range(2)
                    for name, size in {
                        "attn_q": (64, 128),
                        "attn_k": (64, 64),
                        "attn_v": (64, 64),
                        "attn_output": (128, 64),
                    }.items()
                },
            ),
            "llama.attention.key_length",
        ),
    ],
    ids=["wide already", "another architecture", "heads wider than the model"],
)
def test_a_model_that_cannot_be_widened_is_refused_by_field(
    image: bytes, field: str, tmp_path: Path
) -> None:
    source = tmp_path / "source.gguf"
    source.write_bytes(image)
    with pytest.raises(ModelFileError, match="cannot be widened") as raised:
        widen(source, tmp_path / "out.gguf")
    assert raised.value.field == field
    assert list(tmp_path.iterdir()) == [source]


def test_a_tensor_of_unknown_place_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    extra = gguf_bytes.Tensor("blk.0.adapter.weight", (64, 64))
    source.write_bytes(gguf_bytes.tiny_llama_bytes(tensors={extra.name: extra}))
    with pytest.raises(ModelFileError) as raised:
        widen(source, tmp_path / "out.gguf")
    assert raised.value.field == extra.name


def test_a_type_that_cannot_be_padded_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    q2_0 = gguf_bytes.Tensor("blk.0.ffn_up.weight", (64, 96), type_id=42, data=bytes(96 * 18))
    source.write_bytes(gguf_bytes.tiny_llama_bytes(tensors={q2_0.name: q2_0}))
    with pytest.raises(ModelFileError, match="Q2_0") as raised:
        widen(source, tmp_path / "out.gguf")
    assert raised.value.field == q2_0.name


def test_a_damaged_file_ends_in_the_preflights_error(tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    source.write_bytes(gguf_bytes.tiny_llama_bytes()[:-100])
    with pytest.raises(ModelFileError):
        widen(source, tmp_path / "out.gguf")
    assert list(tmp_path.iterdir()) == [source]


def test_an_existing_file_is_kept_unless_forced(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    out.write_text("precious")
    with pytest.raises(UsageError, match="--force"):
        widen(tiny_model, out)
    assert out.read_text() == "precious"
    widen(tiny_model, out, force=True)
    check_gguf(str(out))


def test_a_model_can_be_widened_in_place(tiny_model: Path, tmp_path: Path) -> None:
    source = tmp_path / "model.gguf"
    shutil.copyfile(tiny_model, source)
    widen(source, source, force=True)
    assert check_gguf(str(source)).metadata["llama.embedding_length"] == 256
