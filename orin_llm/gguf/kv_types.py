"""Element types of a KV cache: keys have one, values have one."""

from __future__ import annotations

from dataclasses import dataclass

from orin_llm.errors import UsageError


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
