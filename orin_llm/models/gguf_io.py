"""GGUF files written tensor by tensor.

The header is written by the gguf package, the tensor data is streamed: no tensor is ever whole in
memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGUFValueType as ValueType
from numpy.typing import NDArray

from orin_llm.gguf.header import Header
from orin_llm.host.disk import require_space
from orin_llm.models.output_file import new_file
from orin_llm.models.reporter import Progress, Reporter


@dataclass(frozen=True)
class Value:
    """One metadata value, or a list of them, with its type.

    Bytes of a string that are not UTF-8 are lone surrogates, as in Python's own paths.
    """

    type: ValueType  # of a list, that of its items
    value: Any

    @classmethod
    def string(cls, text: str) -> Value:
        return cls(ValueType.STRING, text)

    @classmethod
    def u32(cls, number: int) -> Value:
        return cls(ValueType.UINT32, number)

    @classmethod
    def boolean(cls, value: bool) -> Value:
        return cls(ValueType.BOOL, value)

    @classmethod
    def f32(cls, number: float) -> Value:
        return cls(ValueType.FLOAT32, number)


Metadata = dict[str, Value]


@dataclass(frozen=True)
class Tensor:
    """A tensor to write.

    Attributes:
        shape: fastest dimension first, as in the file.
        ggml_type: e.g. "Q4_K".
        chunks: makes its data, in order.
    """

    name: str
    shape: tuple[int, ...]
    ggml_type: str
    chunks: Callable[[], Iterator[NDArray[Any]]]

    @property
    def nbytes(self) -> int:
        return row_bytes(self.ggml_type, self.shape[0]) * math.prod(self.shape[1:])


def row_bytes(ggml_type: str, n: int) -> int:
    """Bytes of a row of `n` weights, which are whole blocks."""
    block, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[ggml_type]]
    if n % block:
        raise ValueError(f"a row of {n} is not whole blocks of {ggml_type} ({block} weights)")
    return n // block * block_bytes


def metadata_of(header: Header) -> Metadata:
    """All metadata of a file that was read, in the order of the file."""
    types = header.value_types
    return {key: Value(ValueType(types[key]), value) for key, value in header.metadata.items()}


def write_gguf(
    out: Path,
    metadata: Metadata,
    tensors: Sequence[Tensor],
    *,
    force: bool = False,
    reporter: Reporter | None = None,
) -> None:
    """Writes a GGUF file that appears under its name only when it is complete.

    Raises:
        UsageError, OrinError: as `output_file.new_file` and `host.disk.require_space`.
    """
    report = (reporter or Reporter()).progress
    step = f"writing {out.name}"
    with new_file(out, force=force) as part:
        alignment = _write_header(part, metadata, tensors)
        padded = [-(-tensor.nbytes // alignment) * alignment for tensor in tensors]
        total = sum(padded)
        require_space(out.parent, total)
        with part.open("r+b") as file:
            file.seek(-(-part.stat().st_size // alignment) * alignment)
            done = 0
            for tensor, padded_bytes in zip(tensors, padded, strict=True):
                written = 0
                for chunk in tensor.chunks():
                    file.write(chunk.data)
                    written += chunk.nbytes
                    report(Progress(step, done + written, total))
                if written != tensor.nbytes:
                    raise ValueError(f"{tensor.name}: {written} bytes made, {tensor.nbytes} due")
                file.write(bytes(padded_bytes - written))
                done += padded_bytes
            report(Progress(step, total, total))


def _write_header(path: Path, metadata: Metadata, tensors: Sequence[Tensor]) -> int:
    """Writes everything before the tensor data; returns the alignment of that data."""
    architecture = metadata.get("general.architecture")
    writer = gguf.GGUFWriter(path, architecture.value if architecture else "")
    if not architecture:
        writer.kv_data[0].clear()  # the writer has put it itself
    for key, value in metadata.items():
        # It cannot write an empty array, which llama.cpp reads as it reads none.
        if key == "general.architecture" or value.value == []:
            continue
        if isinstance(value.value, list):
            items = [_encoded(item) for item in value.value]
            writer.add_key_value(_encoded(key), items, ValueType.ARRAY, value.type)
        else:
            writer.add_key_value(_encoded(key), _encoded(value.value), value.type)
    if "general.alignment" in metadata:
        writer.data_alignment = metadata["general.alignment"].value
    for tensor in tensors:
        writer.add_tensor_info(
            tensor.name,
            tensor.shape[::-1],
            np.dtype(np.float32),  # not looked at beside a type
            tensor.nbytes,
            gguf.GGMLQuantizationType[tensor.ggml_type],
        )
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
    finally:
        writer.close()
    return int(writer.data_alignment)


def _encoded(value: Any) -> Any:
    """A string as its bytes in the file: the writer would not take all that a file may hold."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
