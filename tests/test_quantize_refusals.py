"""What quantizing refuses, before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import architectures
import numpy as np
import pytest
from gguf_bytes import tiny_llama_bytes, vocab_only
from quantize_requests import model, request, wide_model

from orin_llm.errors import ModelFileError, UsageError
from orin_llm.models.quantize_keep import Keep
from orin_llm.models.quantize_plan import Importance, make_plan
from orin_llm.models.quantize_types import FILE_TYPES, file_type_named


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    return wide_model(tmp_path)


@pytest.fixture
def narrow(tmp_path: Path) -> Path:
    return model(tmp_path / "narrow.gguf", tiny_llama_bytes())


@pytest.mark.parametrize(
    ("kind", "keep", "message"),
    [
        ("Q4_K_M", ["foo=Q8_0"], "no tensor's name has 'foo' in it"),
        ("Q4_K_M", ["attn_(=Q8_0"], r"'attn_\(' is not a regular expression"),
        ("Q4_K_M", ["attn_v=Q4_K_M"], "cannot have the type Q4_K_M"),
        ("Q4_K_M", ["attn_v=Q8_K"], "cannot have the type Q8_K"),
        ("Q4_K_M", ["attn_v=I32"], "cannot have the type I32"),
        ("F16", ["attn_v=Q8_0"], "attn_v=… has no meaning with F16"),
        ("COPY", ["output=Q8_0"], "no meaning with COPY"),
    ],
)
def test_a_type_that_cannot_be_kept_is_refused(
    wide: Path, kind: str, keep: list[str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_plan(request(wide, kind, *keep))


@pytest.mark.parametrize("rule", ["foo", "=Q8_0", "foo=", "output=Q8_0 output=Q6_K"])
def test_a_rule_that_is_not_name_and_type_is_refused(rule: str) -> None:
    with pytest.raises(UsageError, match="--keep"):
        Keep.parse(rule.split())


def test_an_output_type_that_would_be_ignored_is_refused(wide: Path) -> None:
    with pytest.raises(UsageError, match="has no output.weight, .* name token_embd alone"):
        make_plan(request(wide, "Q4_K_M", "output=Q8_0", pure=True))


def test_a_table_whose_rows_do_not_divide_by_the_blocks_is_refused(narrow: Path) -> None:
    with pytest.raises(UsageError, match="rows of 64 weights do not divide by blocks of 256"):
        make_plan(request(narrow, "Q4_K_M", "token_embd=Q6_K"))


def test_a_kind_without_a_type_for_these_rows_is_refused(narrow: Path) -> None:
    with pytest.raises(ModelFileError, match="no tensor type fallback is defined for type q1_0"):
        make_plan(request(narrow, "Q1_0"))


def test_an_unknown_kind_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"choose one of: Q4_0, .*Q4_K_M.*, COPY"):
        file_type_named("Q9_K")
    assert file_type_named("q5_k") is FILE_TYPES["Q5_K_M"]


def test_a_quantized_model_is_not_quantized_again_unless_told(tmp_path: Path) -> None:
    source = model(tmp_path / "q8.gguf", architectures.llama().image("q8_0").data)
    with pytest.raises(ModelFileError, match=r"quantized already \(16 Q8_0 tensors would change\)"):
        make_plan(request(source))
    assert make_plan(request(source, allow_requantize=True)).tensors
    assert make_plan(request(source, "Q8_0")).tensors  # nothing changes


def test_a_vocabulary_is_refused(tmp_path: Path) -> None:
    source = model(tmp_path / "vocab.gguf", vocab_only().data)
    with pytest.raises(ModelFileError, match="no weights"):
        make_plan(request(source))


# -- importance ---------------------------------------------------------------------------------


def importance(**weights: np.ndarray[Any, Any]) -> Importance:
    return Importance("i.gguf", {name.replace("__", "."): w for name, w in weights.items()})


@pytest.mark.parametrize(
    ("kind", "keep"),
    [("IQ2_XXS", []), ("Q2_K_S", []), ("Q4_K_M", ["token_embd=IQ1_S"]), ("IQ3_XXS", [])],
)
def test_tiny_types_need_importance(wide: Path, kind: str, keep: list[str]) -> None:
    with pytest.raises(
        UsageError, match=f"{kind} needs an importance matrix: .*`orin-llm imatrix`"
    ):
        make_plan(request(wide, kind, *keep))


def test_tiny_types_need_importance_for_every_tensor(wide: Path) -> None:
    given = importance(blk__0__attn_q__weight=np.ones(256, np.float32))
    with pytest.raises(UsageError, match=r"i\.gguf has none for it"):
        make_plan(request(wide, "IQ2_XXS", importance=given))


@pytest.mark.parametrize("size", [255, 512])
def test_importance_of_another_width_is_refused(wide: Path, size: int) -> None:
    given = importance(blk__0__attn_q__weight=np.ones(size, np.float32))
    with pytest.raises(ModelFileError, match=f"has 256 inputs, it has values for {size}"):
        make_plan(request(wide, importance=given))


def test_importance_of_other_tensors_is_refused(wide: Path) -> None:
    given = importance(blk__9__attn_q__weight=np.ones(256, np.float32))
    with pytest.raises(ModelFileError, match="has none of its tensors"):
        make_plan(request(wide, importance=given))


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_importance_that_is_no_mean_square_is_refused(wide: Path, value: float) -> None:
    given = importance(blk__0__attn_q__weight=np.full(256, value, np.float32))
    with pytest.raises(ModelFileError, match="not all finite and positive"):
        make_plan(request(wide, importance=given))
