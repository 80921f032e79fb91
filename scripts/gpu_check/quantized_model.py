"""A model with the weights of another one, quantized as llama.cpp's quantizer would."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from gpu_check.probes import probes
from orin_llm._native import TensorInfo, check_gguf
from orin_llm.models.gguf_io import Tensor, Value, metadata_of, write_gguf
from orin_llm.models.quant_mix import file_type_named, matrix_type

_ROWS = 4096  # at a time


def ggml_name(ggml_type: str) -> str:
    """A type as ggml itself writes it: `q4_K` of `Q4_K`."""
    return ggml_type[0].lower() + ggml_type[1:]


def write_quantized(source: Path, out: Path, file_type: str) -> None:
    """Write the model of `source` as a file of this type, such as Q4_K_M.

    Every matrix needs rows of whole blocks: `models widen` makes them so.
    """
    kind = file_type_named(file_type)
    header = check_gguf(str(source))
    metadata = metadata_of(header)
    data = np.memmap(source, dtype=np.uint8, mode="r")
    names = {tensor.name for tensor in header.tensors}
    n_layer = sum(name.endswith(".attn_norm.weight") for name in names)
    tied = "output.weight" not in names

    def blocks(tensor: TensorInfo, wanted: str) -> Iterator[NDArray[np.uint8]]:
        span = np.asarray(data[tensor.offset : tensor.offset + tensor.nbytes])
        rows = span.reshape(int(np.prod(tensor.shape[1:])), -1)
        for begin in range(0, len(rows), _ROWS):
            part = rows[begin : begin + _ROWS]
            floats = gguf.dequantize(part, gguf.GGMLQuantizationType[tensor.type])
            yield probes().quantize(ggml_name(wanted), floats)

    def copied(tensor: TensorInfo) -> Iterator[NDArray[np.uint8]]:
        yield np.asarray(data[tensor.offset : tensor.offset + tensor.nbytes])

    def converted(tensor: TensorInfo) -> Tensor:
        if len(tensor.shape) == 1:
            return Tensor(tensor.name, tensor.shape, tensor.type, partial(copied, tensor))
        wanted = matrix_type(kind, tensor.name, n_layer=n_layer, tied_embeddings=tied)
        return Tensor(tensor.name, tensor.shape, wanted, partial(blocks, tensor, wanted))

    metadata["general.file_type"] = Value.u32(kind.code)
    write_gguf(out, metadata, [converted(tensor) for tensor in header.tensors], force=True)
