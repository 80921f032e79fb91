"""Headers of models that are not there: shapes and metadata, as read_header gives them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

BLOCKS = {"F32": (1, 4), "F16": (1, 2), "Q8_0": (32, 34), "Q4_K": (256, 144), "Q6_K": (256, 210)}


@dataclass(frozen=True)
class FakeTensor:
    name: str
    type: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        elements, block_bytes = BLOCKS[self.type]
        return prod(self.shape) // elements * block_bytes


@dataclass(frozen=True)
class FakeHeader:
    metadata: dict[str, Any]
    tensors: tuple[FakeTensor, ...] = ()


def header(arch: str, tensors: tuple[FakeTensor, ...] = (), **keys: Any) -> FakeHeader:
    """`attention__head_count=8` stands for `ARCH.attention.head_count`."""
    named = {f"{arch}.{key.replace('__', '.')}": value for key, value in keys.items()}
    return FakeHeader({"general.architecture": arch, **named}, tensors)


def llama_3_8b() -> FakeHeader:
    """Llama 3.1 8B as Q4_K_M: half of the layers have V and down projections in Q6_K."""
    tensors = [
        FakeTensor("token_embd.weight", "Q4_K", (4096, 128256)),
        FakeTensor("output.weight", "Q6_K", (4096, 128256)),
        FakeTensor("output_norm.weight", "F32", (4096,)),
        FakeTensor("rope_freqs.weight", "F32", (64,)),
    ]
    for layer in range(32):
        better = "Q6_K" if layer % 2 else "Q4_K"
        for name, kind, shape in (
            ("attn_norm", "F32", (4096,)),
            ("ffn_norm", "F32", (4096,)),
            ("attn_q", "Q4_K", (4096, 4096)),
            ("attn_k", "Q4_K", (4096, 1024)),
            ("attn_v", better, (4096, 1024)),
            ("attn_output", "Q4_K", (4096, 4096)),
            ("ffn_gate", "Q4_K", (4096, 14336)),
            ("ffn_up", "Q4_K", (4096, 14336)),
            ("ffn_down", better, (14336, 4096)),
        ):
            tensors.append(FakeTensor(f"blk.{layer}.{name}.weight", kind, shape))
    return header(
        "llama",
        tuple(tensors),
        block_count=32,
        context_length=131072,
        embedding_length=4096,
        feed_forward_length=14336,
        attention__head_count=32,
        attention__head_count_kv=8,
    )
