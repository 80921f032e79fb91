"""Quantizing: the same bytes as llama.cpp's own library, for every kind of file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_bytes import Shape, tiny_llama_bytes
from numpy.typing import NDArray
from stock_quantizer import stock_quantize

from orin_llm._native import check_gguf
from orin_llm.models.quantize import write
from orin_llm.models.quantize_plan import Request, make_plan
from orin_llm.models.quantize_types import FILE_TYPES, file_type_named

# Rows of 256 for the large blocks; and of 64 and 96, where most fall back.
WIDE = Shape(n_embd=256, n_ff=512, n_layer=8)
NARROW = Shape()
TINY_TYPES = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "Q2_K_S")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quantize")


@pytest.fixture(scope="module")
def wide(folder: Path) -> Path:
    path = folder / "wide.gguf"
    path.write_bytes(tiny_llama_bytes(shape=WIDE))
    return path


@pytest.fixture(scope="module")
def narrow(folder: Path) -> Path:
    path = folder / "narrow.gguf"
    path.write_bytes(tiny_llama_bytes(shape=NARROW))
    return path


def importance(model: Path, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Made-up mean squares for every matrix of the layers."""
    rng = np.random.default_rng(seed)
    return {
        tensor.name: rng.gamma(0.5, size=tensor.shape[0]).astype(np.float32)
        for tensor in check_gguf(model).tensors
        if tensor.name.startswith("blk.") and len(tensor.shape) == 2
    }


def quantized(model: Path, out: Path, kind: str, **options: Any) -> bytes:
    write(make_plan(Request(model, file_type_named(kind), **options)), out, threads=2, force=True)
    return out.read_bytes()


def test_a_file_has_the_bytes_of_llama_cpps_own(needs_stock: None, wide: Path, narrow: Path, tmp_path: Path) -> None:
    for model in (wide, narrow):
        for kind in ("Q4_K_M", "Q8_0"):
            ours = quantized(model, tmp_path / "ours.gguf", kind)
            stock_quantize(model, tmp_path / "stock.gguf", FILE_TYPES[kind].code)
            assert ours == (tmp_path / "stock.gguf").read_bytes()
