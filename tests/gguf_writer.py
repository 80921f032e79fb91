"""Writes GGUF files byte by byte, independently of the code under test.

`Image.patched()` breaks one field of a file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

VALUE_TYPES = {
    "u8": (0, "<B"),
    "i8": (1, "<b"),
    "u16": (2, "<H"),
    "i16": (3, "<h"),
    "u32": (4, "<I"),
    "i32": (5, "<i"),
    "f32": (6, "<f"),
    "bool": (7, "<?"),
    "string": (8, ""),
    "array": (9, ""),
    "u64": (10, "<Q"),
    "i64": (11, "<q"),
    "f64": (12, "<d"),
}

F32, F16, Q4_0, Q8_0, Q4_K, Q8_K, I32, I64, NVFP4 = 0, 1, 2, 8, 12, 15, 26, 27, 40
BLOCKS = {  # elements and bytes of a block
    F32: (1, 4),
    F16: (1, 2),
    Q4_0: (32, 18),
    Q8_0: (32, 34),
    Q4_K: (256, 144),
    Q8_K: (256, 292),
    I32: (1, 4),
    I64: (1, 8),
    NVFP4: (64, 36),
}


@dataclass(frozen=True)
class Typed:
    """A metadata value: `kind` of the value, or of an array's elements."""

    kind: str
    value: Any
    is_array: bool = False


def u32(value: int) -> Typed:
    return Typed("u32", value)


def f32(value: float) -> Typed:
    return Typed("f32", value)


def boolean(value: bool) -> Typed:
    return Typed("bool", value)


def string(value: str | bytes) -> Typed:
    return Typed("string", value)


def array(kind: str, values: Sequence[Any]) -> Typed:
    return Typed(kind, list(values), is_array=True)


@dataclass(frozen=True)
class Tensor:
    """Zeros where no data is given. `shape` has the fastest dimension first."""

    name: str
    shape: tuple[int, ...]
    type_id: int = F32
    data: bytes | None = None

    @property
    def nbytes(self) -> int:
        if self.data is not None:
            return len(self.data)
        elements, block_bytes = BLOCKS[self.type_id]
        return math.prod(self.shape) // elements * block_bytes


@dataclass(frozen=True)
class Image:
    """A file's bytes, and where in it each field begins (`marks`).

    Marks: magic, version, tensor_count, metadata_kv_count, data, end;
    KEY/entry, KEY/type, KEY/element_type, KEY/count, KEY/value;
    TENSOR/entry, TENSOR/n_dims, TENSOR/dim0 …, TENSOR/type, TENSOR/offset, TENSOR/data.
    """

    data: bytes
    marks: Mapping[str, int]

    def patched(self, mark: str, layout: str, value: Any, *, skip: int = 0) -> Image:
        """Overwrites the field at a mark (plus `skip` bytes) with a value in a struct layout."""
        out = bytearray(self.data)
        struct.pack_into(layout, out, self.marks[mark] + skip, value)
        return Image(bytes(out), self.marks)


@dataclass
class _Writer:
    out: bytearray = field(default_factory=bytearray)
    marks: dict[str, int] = field(default_factory=dict)

    def mark(self, name: str) -> None:
        self.marks[name] = len(self.out)

    def pack(self, layout: str, value: Any) -> None:
        self.out += struct.pack(layout, value)

    def text(self, value: str | bytes) -> None:
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        self.pack("<Q", len(raw))
        self.out += raw

    def scalar(self, kind: str, value: Any) -> None:
        if kind == "string":
            self.text(value)
        else:
            self.pack(VALUE_TYPES[kind][1], value)

    def entry(self, key: str, typed: Typed) -> None:
        self.mark(f"{key}/entry")
        self.text(key)
        self.mark(f"{key}/type")
        if typed.is_array:
            self.pack("<I", VALUE_TYPES["array"][0])
            self.mark(f"{key}/element_type")
        self.pack("<I", VALUE_TYPES[typed.kind][0])
        if typed.is_array:
            self.mark(f"{key}/count")
            self.pack("<Q", len(typed.value))
        self.mark(f"{key}/value")
        for value in typed.value if typed.is_array else [typed.value]:
            self.scalar(typed.kind, value)

    def tensor_info(self, tensor: Tensor, offset: int) -> None:
        name = tensor.name
        self.mark(f"{name}/entry")
        self.text(name)
        self.mark(f"{name}/n_dims")
        self.pack("<I", len(tensor.shape))
        for i, size in enumerate(tensor.shape):
            self.mark(f"{name}/dim{i}")
            self.pack("<Q", size)
        self.mark(f"{name}/type")
        self.pack("<I", tensor.type_id)
        self.mark(f"{name}/offset")
        self.pack("<Q", offset)

    def pad(self, alignment: int) -> None:
        self.out += bytes(-len(self.out) % alignment)


def write_gguf(
    metadata: Mapping[str, Typed],
    tensors: Sequence[Tensor] = (),
    *,
    version: int = 3,
    alignment: int = 32,
) -> Image:
    """A file with this metadata and these tensors, packed one after the other."""
    writer = _Writer()
    writer.mark("magic")
    writer.out += b"GGUF"
    for mark, layout, value in (
        ("version", "<I", version),
        ("tensor_count", "<Q", len(tensors)),
        ("metadata_kv_count", "<Q", len(metadata)),
    ):
        writer.mark(mark)
        writer.pack(layout, value)
    for key, typed in metadata.items():
        writer.entry(key, typed)
    offset = 0
    for tensor in tensors:
        writer.tensor_info(tensor, offset)
        offset += tensor.nbytes + -tensor.nbytes % alignment
    if tensors:
        writer.pad(alignment)
    writer.mark("data")
    for tensor in tensors:
        writer.pad(alignment)
        writer.mark(f"{tensor.name}/data")
        writer.out += tensor.data if tensor.data is not None else bytes(tensor.nbytes)
    writer.mark("end")
    return Image(bytes(writer.out), writer.marks)
