"""Facts of a model that a tuning report tells beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orin_llm.bench.tables import table
from orin_llm.gguf.footprint import (
    DEFAULT_MAX_CTX,
    bytes_read_per_token,
    kv_bytes_per_token,
    weight_bytes,
)
from orin_llm.gguf.header import Header
from orin_llm.gguf.kv_layers import Hyperparameters, kv_layers
from orin_llm.host.units import size_text
from orin_llm.models.describe import context, parameters, quant, type_mix

_BYTES_OF_A_FLOAT = 4


@dataclass(frozen=True)
class RopeTable:
    """The table of cosines and sines for a context.

    Attributes:
        channels: of a head that are turned.
    """

    max_seq_len: int
    channels: int

    @property
    def bytes(self) -> int:
        """max_seq_len × channels / 2 × 2 × 4: a cosine and a sine, of 4 bytes, for each pair."""
        return self.max_seq_len * (self.channels // 2) * 2 * _BYTES_OF_A_FLOAT

    @property
    def text(self) -> str:
        """The size with its arithmetic."""
        sum_of = f"{self.max_seq_len} × {self.channels} / 2 × 2 × 4"
        return f"{sum_of} = {self.bytes} bytes ({size_text(self.bytes)})"


def rope_tables(header: Header, n_ctx: int) -> list[RopeTable]:
    """For the context that is used, and for the model's own; none where no head is turned.

    Args:
        n_ctx: tokens of the engine's context; 0: the model's own, at most 8192.
    """
    layers, own = kv_layers(header), context(header)
    channels = Hyperparameters(header).integer(
        "rope.dimension_count", layers[0].k_head if layers else 0
    )
    used = n_ctx or min(own or DEFAULT_MAX_CTX, DEFAULT_MAX_CTX)
    lengths = dict.fromkeys((used, own))
    return [RopeTable(length, channels) for length in lengths if length and channels]


def quantization_lines(header: Header, file_name: str, kv_types: Sequence[str]) -> list[str]:
    """What is stored how, and what a token reads of it, as paragraphs and a table in Markdown."""
    size, elements = weight_bytes(header), parameters(header)
    bits = 8 * size / elements if elements else 0.0
    lines = [
        f"{quant(header, file_name)}: {size_text(size)}, {bits:.2f} bits a weight. Decoding a "
        f"token reads {size_text(bytes_read_per_token(header))} of weights.",
        "",
        table(
            "type", "tensors", "size", "part",
            rows=[
                [s.type, str(s.tensors), size_text(s.bytes), f"{100 * s.bytes / size:.1f} %"]
                for s in type_mix(header)
            ],
        ),
    ]  # fmt: skip
    kv = [[t, size_text(kv_bytes_per_token(header, t))] for t in kv_types]
    return [*lines, table("KV cache", "a token", rows=kv)]
