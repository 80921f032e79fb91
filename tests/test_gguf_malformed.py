"""Every kind of broken container is refused with the field and the offset of what is wrong."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from gguf_bytes import (
    Q4_K,
    Image,
    Tensor,
    Typed,
    array,
    boolean,
    string,
    tiny_llama,
    u32,
    write_gguf,
)
from gguf_cases import ATTN_Q, SMALL, Case, assert_refused, key, patched


def _renamed(old: str, new: str) -> Image:
    """A sound model in which one key has another's name."""
    image = tiny_llama(**SMALL)
    entry = image.marks[f"{old}/entry"]
    renamed = struct.pack("<Q", len(new)) + new.encode()
    tail = image.data[entry + 8 + len(old) :]
    return Image(image.data[:entry] + renamed + tail, image.marks)


def _tensor_of(shape: tuple[int, ...], type_id: int = 0) -> Image:
    """A file that claims one tensor of this shape, without its data."""
    image = write_gguf({"general.architecture": string("x")}, [Tensor("x", (1,) * len(shape))])
    for i, size in enumerate(shape):
        image = image.patched(f"x/dim{i}", "<Q", size)
    return image.patched("x/type", "<I", type_id)


def _huge_tensors(*names: str) -> Image:
    """A file that claims tensors of 2^62 bytes, one behind the other."""
    image = write_gguf({"general.architecture": string("x")}, [Tensor(n, (1, 1)) for n in names])
    for i, name in enumerate(names):
        image = image.patched(f"{name}/offset", "<Q", i << 62)
        for dim in ("dim0", "dim1"):
            image = image.patched(f"{name}/{dim}", "<Q", 1 << 30)
    return image


HEADER = [
    patched("version 0", "version", "<I", 0, "version 0, expected 2 or 3"),
    patched("version 1", "version", "<I", 1, "version 1, of 2023"),
    patched("version 4", "version", "<I", 4, "version 4, expected 2 or 3"),
    patched("big-endian", "version", ">I", 3, "big-endian"),
    patched("many tensors", "tensor_count", "<Q", 16385, "limit of 16384 (max_tensors)"),
    patched("2^63 tensors", "tensor_count", "<Q", 1 << 63, "max_tensors"),
    patched("many keys", "metadata_kv_count", "<Q", 4097, "limit of 4096 (max_metadata_keys)"),
    patched("-1 keys", "metadata_kv_count", "<q", -1, "max_metadata_keys"),
]

ROPE, TOKENS, NAME = "llama.rope.freq_base", "tokenizer.ggml.tokens", "general.name"
METADATA = [
    patched("long key", f"{ROPE}/entry", "<Q", 65536, "(max_key_bytes)", field="metadata[10]"),
    patched(
        "key of 2^64-1", f"{ROPE}/entry", "<Q", 2**64 - 1, "(max_key_bytes)", field="metadata[10]"
    ),
    patched("empty key", f"{NAME}/entry", "<Q", 0, "the key is empty", field="metadata[1]"),
    patched("unknown value type", f"{ROPE}/type", "<I", 13, "value type 13 is unknown"),
    patched("value type 2^32-1", f"{ROPE}/type", "<I", 2**32 - 1, "value type 4294967295"),
    patched("unknown element type", f"{TOKENS}/element_type", "<I", 13, "element type 13"),
    patched("nested array", f"{TOKENS}/element_type", "<I", 9, "an array of arrays"),
    patched("huge array", f"{TOKENS}/count", "<Q", 1 << 40, "(max_array_elements)"),
    patched("array of 2^64-1", f"{TOKENS}/count", "<Q", 2**64 - 1, "(max_array_elements)"),
    patched(
        "array beyond the file",
        f"{TOKENS}/count",
        "<Q",
        1 << 23,
        "but the file ends",
        at=f"{TOKENS}/value",
    ),
    patched("string of 2^64-1", f"{NAME}/value", "<Q", 2**64 - 1, "(max_string_bytes)"),
    patched("string beyond", f"{NAME}/value", "<Q", 1 << 24, "but the file ends", skip=8),
    patched(
        "huge token", f"{TOKENS}/value", "<Q", 1 << 60, "string 0 of 1152921504606846976 bytes"
    ),
    Case(
        "NUL in a key",
        lambda: tiny_llama(metadata={"a\0b": u32(1)}, **SMALL),
        "metadata[18]",
        "a\0b/entry",
        "the key contains a NUL byte",
    ),
    Case(
        "duplicate key",
        lambda: _renamed("llama.block_count", "general.name"),
        "general.name",
        "llama.block_count/entry",
        "the key is there twice",
    ),
    Case(
        "boolean of 2",
        lambda: tiny_llama(metadata={"x": boolean(True)}, **SMALL).patched("x/value", "<B", 2),
        "x",
        "x/value",
        "a boolean of 2",
    ),
]

ALIGNMENT = [
    key("alignment 0", "general.alignment", u32(0), "expected a power of two"),
    key("alignment 33", "general.alignment", u32(33), "expected a power of two"),
    key("alignment 16", "general.alignment", u32(16), "expected 32 (min_alignment)"),
    key("alignment 2 MiB", "general.alignment", u32(1 << 21), "1048576 (max_alignment)"),
    key("alignment 2^31", "general.alignment", u32(1 << 31), "1048576 (max_alignment)"),
    key("alignment u64", "general.alignment", Typed("u64", 32), "of type u64, expected u32"),
    key("alignment array", "general.alignment", array("u32", [32]), "of type array of u32"),
]

TENSOR_TABLE = [
    patched("long name", f"{ATTN_Q}/entry", "<Q", 64, "(max_name_bytes)", field="tensors[3]"),
    patched("empty name", f"{ATTN_Q}/entry", "<Q", 0, "the name is empty", field="tensors[3]"),
    Case(
        "NUL in a name",
        lambda: tiny_llama(tensors={"x\0y": Tensor("x\0y", (1,))}, **SMALL),
        "tensors[20]",
        "x\0y/entry",
        "the name contains a NUL byte",
    ),
    Case(
        "duplicate name",
        lambda: tiny_llama(tensors={"again": Tensor("output_norm.weight", (32,))}, **SMALL),
        "output_norm.weight",
        "output_norm.weight/entry",
        "the name is there twice",
    ),
    patched("5 dimensions", f"{ATTN_Q}/n_dims", "<I", 5, "5 dimensions"),
    patched("2^31 dimensions", f"{ATTN_Q}/n_dims", "<I", 1 << 31, "(max_dims)"),
    patched("dimension 0", f"{ATTN_Q}/dim0", "<Q", 0, "dimension 0 is 0"),
    patched("dimension -1", f"{ATTN_Q}/dim1", "<q", -1, "(max_dimension)"),
    Case(
        "elements wrap to zero",
        lambda: _tensor_of((1 << 22, 1 << 22, 1 << 20)),
        "x",
        "x/dim2",
        "more elements than can be counted",
    ),
    Case(
        "elements wrap to a few",
        lambda: _tensor_of((2**31 - 1, 2**31 - 1, 4, 5)),
        "x",
        "x/dim2",
        "more elements than can be counted",
    ),
    Case(
        "bytes wrap",
        lambda: _tensor_of((2**31 - 1, 2**31 - 1)),
        "x",
        "x/type",
        "more bytes than can be counted",
    ),
    Case(
        "sizes wrap together",
        lambda: _huge_tensors("x", "y"),
        "y",
        "y/entry",
        "end beyond any file",
    ),
    patched("unknown tensor type", f"{ATTN_Q}/type", "<I", 43, "tensor type 43 is unknown"),
    patched("removed tensor type", f"{ATTN_Q}/type", "<I", 4, "tensor type 4 is unknown"),
    patched("tensor type -1", f"{ATTN_Q}/type", "<i", -1, "tensor type 4294967295"),
    patched("split block", f"{ATTN_Q}/type", "<I", Q4_K, "Q4_K blocks of 256"),
    patched("unaligned data", f"{ATTN_Q}/offset", "<Q", 33, "not a multiple of the alignment 32"),
    patched("overlap", f"{ATTN_Q}/offset", "<Q", 0, "overlaps what is before the end of tensor"),
    patched("gap", f"{ATTN_Q}/offset", "<Q", 1 << 20, "leaves a gap after the end of tensor"),
    patched("offset 2^64-32", f"{ATTN_Q}/offset", "<Q", 2**64 - 32, "leaves a gap"),
    patched("first not at 0", "token_embd.weight/offset", "<Q", 32, "after the start of the data"),
]

CASES = [*HEADER, *METADATA, *ALIGNMENT, *TENSOR_TABLE]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_malformed_container_is_refused_with_field_and_offset(case: Case, tmp_path: Path) -> None:
    assert_refused(case, tmp_path / "broken.gguf")
