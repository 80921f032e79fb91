"""GGUF files read for their metadata and written tensor by tensor.

Writing is the gguf package's, but for the tensor data, which is streamed: no tensor is ever whole
in memory. Reading is our own: the package's reader makes several array objects of each array item
and takes ten seconds and 700 MB for the vocabulary of Llama 3.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGUFValueType as ValueType
from numpy.typing import NDArray

from orin_llm.errors import ModelFileError
from orin_llm.host.disk import require_space
from orin_llm.models.output_file import new_file
from orin_llm.models.reporter import Progress, Reporter


@dataclass(frozen=True)
class Value:
    """One metadata value with its type. Strings are bytes: nothing promises that they are UTF-8."""

    type: ValueType
    value: Any
    item_type: ValueType | None = None  # of an array

    @classmethod
    def string(cls, text: str) -> Value:
        return cls(ValueType.STRING, text.encode())

    @classmethod
    def u32(cls, number: int) -> Value:
        return cls(ValueType.UINT32, number)

    @classmethod
    def f32(cls, number: float) -> Value:
        return cls(ValueType.FLOAT32, number)

    @classmethod
    def array(cls, item_type: ValueType, items: list[Any]) -> Value:
        return cls(ValueType.ARRAY, items, item_type)


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


_SCALARS = {
    ValueType.UINT8: "<B",
    ValueType.INT8: "<b",
    ValueType.UINT16: "<H",
    ValueType.INT16: "<h",
    ValueType.UINT32: "<I",
    ValueType.INT32: "<i",
    ValueType.FLOAT32: "<f",
    ValueType.BOOL: "<?",
    ValueType.UINT64: "<Q",
    ValueType.INT64: "<q",
    ValueType.FLOAT64: "<d",
}


class _Cursor:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def scalar(self, value_type: ValueType) -> Any:
        code = _SCALARS[value_type]
        (value,) = struct.unpack_from(code, self._data, self._at)
        self._at += struct.calcsize(code)
        return value

    def string(self) -> bytes:
        size = self.scalar(ValueType.UINT64)
        text = self._data[self._at : self._at + size]
        self._at += size
        return text

    def value(self) -> Value:
        value_type = ValueType(self.scalar(ValueType.UINT32))
        if value_type is ValueType.STRING:
            return Value(value_type, self.string())
        if value_type is not ValueType.ARRAY:
            return Value(value_type, self.scalar(value_type))
        item_type = ValueType(self.scalar(ValueType.UINT32))
        count = self.scalar(ValueType.UINT64)
        if item_type is ValueType.STRING:
            return Value.array(item_type, [self.string() for _ in range(count)])
        items = struct.unpack_from(f"<{count}{_SCALARS[item_type][1:]}", self._data, self._at)
        self._at += struct.calcsize(_SCALARS[item_type]) * count
        return Value.array(item_type, list(items))


def read_metadata(path: Path) -> Metadata:
    """All metadata of a GGUF file with its types, in the order of the file.

    For files that are known to be sound: the preflight (or a pinned hash) comes first.

    Raises:
        ModelFileError: not a GGUF file, or one that the preflight would refuse.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            cursor = _Cursor(data)
            magic, _version = cursor.scalar(ValueType.UINT32), cursor.scalar(ValueType.UINT32)
            if magic != gguf.GGUF_MAGIC:
                raise ValueError("no GGUF magic")
            _n_tensors, count = cursor.scalar(ValueType.UINT64), cursor.scalar(ValueType.UINT64)
            return {cursor.string().decode(): cursor.value() for _ in range(count)}
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise ModelFileError(
            f"{path}: its metadata cannot be read ({error})", path=str(path), field="metadata"
        ) from error


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
    writer = gguf.GGUFWriter(path, metadata["general.architecture"].value)
    for key, value in metadata.items():
        # The writer has put the architecture itself, and cannot write an empty array, which
        # llama.cpp reads as it reads none.
        if key == "general.architecture" or (value.type is ValueType.ARRAY and not value.value):
            continue
        writer.add_key_value(key, value.value, value.type, value.item_type)
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
