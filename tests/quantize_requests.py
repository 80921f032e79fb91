"""What tests of quantizing ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gguf_bytes import Shape, tiny_llama_bytes

from orin_llm.models.quantize_keep import Keep
from orin_llm.models.quantize_plan import Request
from orin_llm.models.quantize_types import FILE_TYPES


def wide_model(folder: Path) -> Path:
    """A model all of whose rows are whole blocks of 256: wide.gguf."""
    shape = Shape(n_embd=256, n_ff=256)
    return model(folder / "wide.gguf", tiny_llama_bytes(shape=shape))


def model(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def request(source: Path, kind: str = "Q4_K_M", *keep: str, **options: Any) -> Request:
    return Request(source, FILE_TYPES[kind], Keep.parse(keep), **options)
