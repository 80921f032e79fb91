"""Element types of a KV cache: keys have one, values have one."""

from __future__ import annotations

from dataclasses import dataclass

from orin_llm.errors import UsageError
from orin_llm.gguf.header import Header
from orin_llm.gguf.kv_layers import kv_layers


@dataclass(frozen=True)
class KvType:
    """A type that keys or values may have.

    Attributes:
        name: ggml's.
        ggml_type: ggml's number.
        block_elements, block_bytes: rows are whole blocks.
    """

    name: str
    ggml_type: int
    block_elements: int
    block_bytes: int

    def row_bytes(self, elements: int) -> int:
        """Bytes of so many elements, rounded up to whole blocks."""
        return -(-elements // self.block_elements) * self.block_bytes


# Those that an engine runs.
KV_TYPES = {
    kind.name: kind
    for kind in (
        KvType("f16", 1, 1, 2),
        KvType("bf16", 30, 1, 2),
        KvType("q8_0", 8, 32, 34),
        KvType("q4_0", 2, 32, 18),
    )
}


@dataclass(frozen=True)
class KvTypes:
    """The types of keys and values."""

    k: KvType
    v: KvType

    @classmethod
    def parse(cls, text: str) -> KvTypes:
        """Read `q8_0` (both), or `q8_0:q4_0` (keys, then values).

        Raises:
            UsageError: neither, or a type that is not known.
        """
        names = [name.strip() for name in text.split(":")]
        if len(names) > 2 or not all(name in KV_TYPES for name in names):
            raise UsageError(
                f"kv_type is {text!r}: expected {', '.join(KV_TYPES)}, or one of them for keys and "
                "one for values: q8_0:q4_0"
            )
        return cls(KV_TYPES[names[0]], KV_TYPES[names[-1]])

    @property
    def text(self) -> str:
        """What `parse` reads, in its shortest form."""
        return self.k.name if self.k == self.v else f"{self.k.name}:{self.v.name}"


def require_kv_types(header: Header, types: KvTypes) -> None:
    """Raise UsageError where llama.cpp has no KV cache of these types for a model.

    Heads are whole blocks there; and where values are a view of the keys, there is one type.
    """
    for layer in kv_layers(header):
        parts = ("keys", types.k, layer.k_head), ("values", types.v, layer.v_head)
        for what, kind, head in parts:
            if head % kind.block_elements:
                raise UsageError(
                    f"the {what} of this model are heads of {head}, and {kind.name} has blocks of "
                    f"{kind.block_elements}: choose f16 or bf16 for {what} (--kv-type K:V, kv_type "
                    "in Python)"
                )
        if layer.v_head == 0 and types.k != types.v:
            raise UsageError(
                f"the values of this model are part of its keys, and {types.text} has two types: "
                "choose one (--kv-type, kv_type in Python)"
            )
