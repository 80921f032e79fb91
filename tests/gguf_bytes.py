"""Writes GGUF files, sound and broken ones, byte by byte, independently of the code under test.

`tiny_llama()` is a loadable model of a few hundred kilobytes; `Image.patched()` breaks one field.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
        raw = value.encode() if isinstance(value, str) else value
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


def spm_vocab(n_vocab: int) -> dict[str, Typed]:
    """A SentencePiece vocabulary: the special tokens, the bytes if they fit, then made-up words."""
    tokens = ["<unk>", "<s>", "</s>"]
    kinds = [2, 3, 3]
    if n_vocab >= 259:
        tokens += [f"<0x{byte:02X}>" for byte in range(256)]
        kinds += [6] * 256
    letters = "\u2581abcdefghijklmnopqrstuvwxyz"
    words = list(letters) + [a + b for a in letters for b in letters[1:]]
    words = words[: n_vocab - len(tokens)]
    tokens += words
    kinds += [1] * len(words)
    return {
        "tokenizer.ggml.model": string("llama"),
        "tokenizer.ggml.tokens": array("string", tokens),
        "tokenizer.ggml.scores": array("f32", [-float(i) for i in range(n_vocab)]),
        "tokenizer.ggml.token_type": array("i32", kinds),
        "tokenizer.ggml.bos_token_id": u32(1),
        "tokenizer.ggml.eos_token_id": u32(2),
        "tokenizer.ggml.unknown_token_id": u32(0),
    }


def bpe_vocab(n_vocab: int) -> dict[str, Typed]:
    """A byte-level vocabulary of letters and pairs of letters, with their merges."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pairs = [(a, b) for a in letters for b in letters]
    tokens = ["<|endoftext|>", "\u010a", "\u0120", *letters, *(a + b for a, b in pairs)][:n_vocab]
    return {
        "tokenizer.ggml.model": string("gpt2"),
        "tokenizer.ggml.pre": string("smollm"),
        "tokenizer.ggml.tokens": array("string", tokens),
        "tokenizer.ggml.token_type": array("i32", [3] + [1] * (len(tokens) - 1)),
        "tokenizer.ggml.merges": array("string", [f"{a} {b}" for a, b in pairs if a + b in tokens]),
        "tokenizer.ggml.bos_token_id": u32(0),
        "tokenizer.ggml.eos_token_id": u32(0),
    }


@dataclass(frozen=True)
class Shape:
    """The sizes of a tiny model."""

    arch: str = "llama"
    n_layer: int = 2
    n_embd: int = 64
    n_head: int = 4
    n_head_kv: int = 2
    n_ff: int = 96
    n_vocab: int = 300
    n_ctx: int = 256

    @property
    def head(self) -> int:
        return self.n_embd // self.n_head


def model_metadata(shape: Shape) -> dict[str, Typed]:
    arch = shape.arch
    return {
        "general.architecture": string(arch),
        "general.name": string("tiny"),
        f"{arch}.context_length": u32(shape.n_ctx),
        f"{arch}.embedding_length": u32(shape.n_embd),
        f"{arch}.block_count": u32(shape.n_layer),
        f"{arch}.feed_forward_length": u32(shape.n_ff),
        f"{arch}.attention.head_count": u32(shape.n_head),
        f"{arch}.attention.head_count_kv": u32(shape.n_head_kv),
        f"{arch}.attention.layer_norm_rms_epsilon": f32(1e-5),
        f"{arch}.rope.dimension_count": u32(shape.head),
        f"{arch}.rope.freq_base": f32(10000.0),
    }


def _layer_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    embd, kv, ff = shape.n_embd, shape.n_head_kv * shape.head, shape.n_ff
    layer: dict[str, tuple[int, ...]] = {
        "attn_norm": (embd,),
        "attn_q": (embd, embd),
        "attn_k": (embd, kv),
        "attn_v": (embd, kv),
        "attn_output": (embd, embd),
        "ffn_norm": (embd,),
        "ffn_gate": (embd, ff),
        "ffn_up": (embd, ff),
        "ffn_down": (ff, embd),
    }
    if shape.arch in ("qwen3", "gemma3"):
        layer |= {"attn_q_norm": (shape.head,), "attn_k_norm": (shape.head,)}
    if shape.arch in ("gemma2", "gemma3"):
        layer |= {"post_attention_norm": (embd,), "post_ffw_norm": (embd,)}
    if shape.arch == "phi3":
        for name in ("attn_q", "attn_k", "attn_v", "ffn_gate"):
            del layer[name]
        layer |= {"attn_qkv": (embd, embd + 2 * kv), "ffn_up": (embd, 2 * ff)}
    return layer


def model_tensors(shape: Shape, seed: int = 0) -> list[Tensor]:
    """Random weights that keep activations near 1; the output matrix is the embedding."""
    rng = np.random.default_rng(seed)

    def random(name: str, size: tuple[int, ...]) -> Tensor:
        if len(size) == 1:
            return Tensor(name, size, F32, np.ones(size, dtype="<f4").tobytes())
        values = rng.standard_normal(math.prod(size)) / math.sqrt(size[0])
        return Tensor(name, size, F32, values.astype("<f4").tobytes())

    tensors = [
        random("token_embd.weight", (shape.n_embd, shape.n_vocab)),
        random("output_norm.weight", (shape.n_embd,)),
    ]
    for layer in range(shape.n_layer):
        tensors += [
            random(f"blk.{layer}.{name}.weight", size)
            for name, size in _layer_shapes(shape).items()
        ]
    return tensors


def tiny_llama(
    *,
    shape: Shape | None = None,
    metadata: Mapping[str, Typed | None] | None = None,
    tensors: Mapping[str, Tensor | None] | None = None,
    vocab: Mapping[str, Typed] | None = None,
    seed: int = 0,
    **sizes: Any,
) -> Image:
    """A model that llama.cpp loads and runs.

    metadata and tensors replace entries by name, or drop them (None), or add them; sizes are the
    fields of Shape.
    """
    shape = shape or Shape(**sizes)
    entries: dict[str, Typed] = {
        **model_metadata(shape),
        **(spm_vocab(shape.n_vocab) if vocab is None else vocab),
    }
    table = {tensor.name: tensor for tensor in model_tensors(shape, seed)}
    _apply(entries, metadata or {})
    _apply(table, tensors or {})
    return write_gguf(entries, list(table.values()))


def tiny_llama_bytes(**changes: Any) -> bytes:
    """The bytes of `tiny_llama(**changes)`."""
    return tiny_llama(**changes).data


def vocab_only(vocab: Mapping[str, Typed] | None = None) -> Image:
    """A file that holds a vocabulary and no tensors."""
    entries = {"general.architecture": string("llama"), **(vocab or spm_vocab(300))}
    return write_gguf(entries)


def _apply(entries: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if value is None:
            del entries[name]
        else:
            entries[name] = value
