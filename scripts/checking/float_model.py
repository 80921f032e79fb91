"""A model whose weights are not quantized: no activation is rounded to 8 bits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from orin_llm._native import TensorInfo, check_gguf
from orin_llm.models.gguf_io import Tensor, metadata_of, write_gguf


def write_floats(source: Path, out: Path, matrices: str) -> None:
    """Write the model of `source` with its weights rounded to f16.

    Args:
        matrices: the type in which they lie there, F16 or F32; other tensors are F32.
    """
    header = check_gguf(str(source))
    data = np.memmap(source, dtype=np.uint8, mode="r")

    def floats(tensor: TensorInfo) -> Iterator[NDArray[np.float16] | NDArray[np.float32]]:
        span = np.asarray(data[tensor.offset : tensor.offset + tensor.nbytes])
        rows = span.reshape(int(np.prod(tensor.shape[1:])), -1)
        kind = gguf.GGMLQuantizationType[tensor.type]
        values = np.ascontiguousarray(gguf.dequantize(rows, kind), dtype=np.float32)
        if len(tensor.shape) == 1:
            yield values
            return
        halves = values.astype(np.float16)
        yield halves if matrices == "F16" else halves.astype(np.float32)

    tensors = [
        Tensor(
            tensor.name,
            tensor.shape,
            matrices if len(tensor.shape) > 1 else "F32",
            partial(floats, tensor),
        )
        for tensor in header.tensors
    ]
    write_gguf(out, metadata_of(header), tensors, force=True)
