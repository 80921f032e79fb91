"""Quantizing: the bytes of llama.cpp's own library, for every kind of file and option."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import architectures
import numpy as np
import pytest
from gguf_bytes import Shape, tiny_experts, tiny_llama_bytes
from models_support import write_split_model
from numpy.typing import NDArray
from stock_quantizer import StockFile, stock_quantize

from orin_llm._native import check_gguf
from orin_llm.models.quantize import write
from orin_llm.models.quantize_keep import Keep
from orin_llm.models.quantize_plan import Importance, Request, make_plan
from orin_llm.models.quantize_types import FILE_TYPES

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="elsewhere compilers fuse sums of ggml's own"
)
NEED_IMPORTANCE = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "Q2_K_S")
MIXES = ("Q2_K", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_M", "Q6_K", "Q4_0", "IQ4_XS")
TYPE_IDS = {"F16": 1, "Q5_0": 6, "Q8_0": 8, "Q6_K": 14, "Q3_K": 11}


@dataclass(frozen=True)
class Case:
    """A model, what it is quantized to, and how."""

    model: str
    kind: str
    keep: tuple[str, ...] = ()
    importance: bool = False
    flags: Mapping[str, bool] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [self.model, self.kind, *self.keep, *self.flags]
        return " ".join([*words, "importance"] if self.importance else words)


CASES = [
    *(
        Case("narrow", kind, importance=kind in NEED_IMPORTANCE)
        for kind in FILE_TYPES
        if kind != "Q1_0"  # knows no other type for rows of 64
    ),
    *(Case("deep", kind) for kind in MIXES),
    *(Case("deep", kind, importance=True) for kind in ("Q4_K_M", "Q4_0", "IQ4_XS")),
    # The tables of the others take ggml several seconds; they were compared by hand.
    *(Case("wide", kind, importance=True) for kind in ("IQ2_XXS", "Q2_K_S")),
    *(Case("wide", kind) for kind in ("TQ1_0", "TQ2_0", "Q1_0", "Q2_0", "MXFP4_MOE", "IQ3_S")),
    *(Case("experts", kind, importance=True) for kind in ("Q4_K_M", "Q8_0", "MXFP4_MOE")),
    Case("fused", "Q4_K_M"),
    Case("fused", "Q3_K_M"),
    Case("split", "Q8_0"),
    Case("deep.F16", "Q4_K_M"),
    Case("deep.BF16", "Q4_K_M"),
    Case("deep.Q8_0", "Q4_K_M", flags={"allow_requantize": True}),
    Case("deep", "Q4_K_M", flags={"pure": True}),
    Case("deep", "Q4_K_M", keep=("output=Q8_0",)),
    Case("deep", "Q4_K_M", keep=("token_embd=F16",)),
    Case("untied", "Q4_K_M", keep=("output=Q8_0", "token_embd.weight=F16")),
    Case("deep", "Q4_K_M", keep=("attn_v=Q8_0", r"blk\.[0-3]\.ffn_down=q6_k", "ffn=Q3_K")),
    Case("narrow", "Q4_K_M", keep=("attn_q=Q6_K", "ffn_up=Q5_0")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models under their names, and under `stock` what the library makes of them."""
    place = tmp_path_factory.mktemp("quantize")
    deep = Shape(n_embd=256, n_head=4, n_head_kv=1, n_ff=256, n_layer=8)
    images = {
        "narrow": tiny_llama_bytes(),  # rows of 64 and 96: most types fall back
        "wide": tiny_llama_bytes(shape=Shape(n_embd=256, n_ff=512, n_layer=1)),
        "deep": tiny_llama_bytes(shape=deep),  # layers enough for mixes of types
        "experts": tiny_experts("llama").data,
        "fused": architectures.phi3().image("f16").data,
        "untied": architectures.llama().image("f16").data,
    }
    for name, data in images.items():
        (place / f"{name}.gguf").write_bytes(data)
    write_split_model(place)
    for kind in ("F16", "BF16", "Q8_0"):
        quantized(place / "deep.gguf", place / f"deep.{kind}.gguf", kind)
    return place


@pytest.fixture(scope="module")
def stock(needs_stock: None, folder: Path) -> Path:
    place = folder / "stock"
    place.mkdir()
    stock_quantize([stock_file(case, folder) for case in CASES])
    return place


def model_of(case: Case, folder: Path) -> Path:
    return folder / ("split-00002-of-00002.gguf" if case.model == "split" else f"{case.model}.gguf")


def importance_of(model: Path) -> Importance:
    """Made-up mean squares for every matrix of the layers."""
    rng = np.random.default_rng(1)
    weights: dict[str, NDArray[np.float32]] = {
        tensor.name: rng.gamma(0.5, size=int(np.prod(tensor.shape)) // tensor.shape[1]).astype(
            np.float32
        )
        for tensor in check_gguf(model).tensors
        if tensor.name.startswith("blk.") and len(tensor.shape) > 1
    }
    return Importance("über/imatrix.gguf", weights, dataset="words.txt", chunks=12)


def stock_file(case: Case, folder: Path) -> StockFile:
    """What the tool makes of the same wishes."""
    model = model_of(case, folder)
    if case.model == "split":
        model = folder / "split-00001-of-00002.gguf"
    fields: dict[str, int] = dict(case.flags)
    patterns = []
    for rule in case.keep:
        name, _, kind = rule.rpartition("=")
        number = TYPE_IDS[kind.upper()]
        if name == "output":
            fields["output_tensor_type"] = number
        elif name.startswith("token_embd"):
            fields["token_embedding_type"] = number
        else:
            patterns.append((name, number))
    if case.kind == "COPY":
        fields["only_copy"] = True
    code, out = FILE_TYPES[case.kind].code, folder / "stock" / str(CASES.index(case))
    if not case.importance:
        return StockFile(model, out, code, patterns, fields=fields)
    given = importance_of(model)
    metadata: list[tuple[str, str | int]] = [
        ("quantize.imatrix.file", given.file),
        ("quantize.imatrix.dataset", given.dataset),
        ("quantize.imatrix.entries_count", len(given.weights)),
        ("quantize.imatrix.chunks_count", given.chunks),
    ]
    return StockFile(model, out, code, patterns, given.weights, metadata, fields)


def quantized(model: Path, out: Path, kind: str, **options: Any) -> bytes:
    write(make_plan(Request(model, FILE_TYPES[kind], **options)), out, threads=2)
    return out.read_bytes()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_file_has_the_bytes_of_llama_cpps_own(
    case: Case, folder: Path, stock: Path, tmp_path: Path
) -> None:
    model = model_of(case, folder)
    ours = quantized(
        model,
        tmp_path / "ours.gguf",
        case.kind,
        keep=Keep.parse(case.keep),
        importance=importance_of(model) if case.importance else None,
        **case.flags,
    )
    assert ours == (stock / str(CASES.index(case))).read_bytes()
