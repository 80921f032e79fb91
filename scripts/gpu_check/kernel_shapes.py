"""What is timed: matrices and contexts of real models, and small ones for a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass

from orin_llm.gguf.kv_types import KvTypes

# As ggml names them, in the order of WeightType (cuda/weight_type.h).
TYPES = ("f16", "q8_0", "q4_0", "q4_1", "q4_K", "q5_K", "q6_K")
# Values and bytes of a block.
BLOCKS = {
    "f16": (1, 2), "q8_0": (32, 34), "q4_0": (32, 18), "q4_1": (32, 20),
    "q4_K": (256, 144), "q5_K": (256, 176), "q6_K": (256, 210),
}  # fmt: skip


def row_bytes(name: str, n_values: int) -> int:
    values, size = BLOCKS[name]
    return n_values // values * size


@dataclass(frozen=True)
class Product:
    """Matrices that one launch multiplies with the same rows.

    Attributes:
        model: whose it is: the name of a shape of the check.
        matrices: type and rows of each.
        gated: the second of two is multiplied by silu of the first, and written as rows.
        large: enough bytes for the bandwidth to be what counts.
    """

    model: str
    name: str
    n_values: int
    matrices: tuple[tuple[str, int], ...]
    gated: bool = False
    large: bool = False

    @property
    def n_rows(self) -> int:
        return sum(rows for _, rows in self.matrices)

    @property
    def weight_bytes(self) -> int:
        return sum(rows * row_bytes(name, self.n_values) for name, rows in self.matrices)

    @property
    def type(self) -> str:
        return self.matrices[0][0]

    @property
    def label(self) -> str:
        return f"{self.model} {self.name}"


def _model(model: str, embd: int, kv: int, ff: int, vocab: int) -> list[Product]:
    k, six = "q4_K", "q6_K"
    return [
        Product(model, "QKV", embd, ((k, embd), (k, kv), (six, kv))),
        Product(model, "O", embd, ((k, embd),)),
        Product(model, "gate+up", embd, ((k, ff), (k, ff)), gated=True, large=ff > 10000),
        Product(model, "down q4_K", ff, ((k, embd),), large=ff > 10000),
        Product(model, "down q6_K", ff, ((six, embd),), large=ff > 10000),
        Product(model, "output", embd, ((six, vocab),), large=True),
    ]


_OTHERS = [Product("8b", f"down {name}", 14336, ((name, 4096),))
           for name in TYPES if name not in ("q4_K", "q6_K")]  # fmt: skip


@dataclass(frozen=True)
class Context:
    """A context that the last token of each of `n_tokens` sequences attends to.

    Attributes:
        kv_type: `q8_0:q4_0` where keys and values have types of their own.
        prompt: instead, the last n_tokens of one sequence.
    """

    model: str
    n_head: int
    n_head_kv: int
    head_dim: int
    kv_type: str
    depth: int
    n_tokens: int = 1
    prompt: bool = False

    @property
    def label(self) -> str:
        tokens = f" p{self.n_tokens}" if self.prompt else f" ×{self.n_tokens}"
        return f"{self.model} attention {self.kv_type} d{self.depth}{tokens}"

    @property
    def kv_types(self) -> KvTypes:
        return KvTypes.parse(self.kv_type)

    @property
    def kv_bytes(self) -> int:
        """Read in a step."""
        n_values = self.n_head_kv * self.head_dim
        row = self.kv_types.k.row_bytes(n_values) + self.kv_types.v.row_bytes(n_values)
        return (1 if self.prompt else self.n_tokens) * self.depth * row

    @property
    def flops(self) -> int:
        """Of the products alone."""
        seen = self.n_tokens * self.depth
        if self.prompt:
            seen -= self.n_tokens * (self.n_tokens - 1) // 2
        return 4 * self.n_head * self.head_dim * seen


@dataclass(frozen=True)
class Work:
    """All that is timed, and how.

    Attributes:
        rows_per_warp, splits, product_splits: 0 is the kernel's own choice.
        rows: values and tokens of activations that are normalised.
        cache_bytes: launches take turns on copies of what they read that are larger together than
            this, a multiple of any L2 cache.
    """

    products: tuple[Product, ...]
    vector_tokens: tuple[int, ...]
    product_tokens: tuple[int, ...]
    rows_per_warp: tuple[int, ...]
    splits: tuple[int, ...]
    product_splits: tuple[int, ...]
    rows: tuple[tuple[int, int], ...]
    contexts: tuple[Context, ...]
    cache_bytes: int
    repetitions: int


FULL = Work(
    products=(
        *_model("8b", 4096, 1024, 14336, 128256),
        *_model("1b", 2048, 512, 8192, 128256),
        *_OTHERS,
    ),
    vector_tokens=(1, 2, 3, 4, 6, 8),
    product_tokens=(1, 2, 3, 4, 6, 8, 16, 32, 128, 512, 2048),
    rows_per_warp=(0, 1, 2, 4),
    splits=(0, 1, 2, 4),
    product_splits=(0, 1, 4),
    rows=tuple((n, tokens) for n in (2048, 4096) for tokens in (1, 4, 16, 512)),
    contexts=(
        *(
            Context("8b", 32, 8, 128, kv_type, depth, n_tokens)
            for n_tokens in (1, 4, 16)
            for kv_type in ("f16", "q8_0", "q4_0")
            for depth in (512, 2048, 8192, 16384)
            if n_tokens * depth <= 65536
        ),
        *(
            Context("8b", 32, 8, 128, kv_type, 8192)
            for kv_type in ("q8_0:q4_0", "q8_0:f16", "f16:q4_0")
        ),
        *(
            Context("8b", 32, 8, 128, kv_type, depth, n_tokens, prompt=True)
            for kv_type in ("f16", "q8_0")
            for depth, n_tokens in ((8192, 4), (512, 512), (2048, 512), (8192, 512), (2048, 2048))
        ),
    ),
    cache_bytes=256 << 20,
    repetitions=9,
)

TINY = Work(
    products=(
        Product("tiny", "gate+up", 256, (("q4_K", 32), ("q4_K", 32)), gated=True, large=True),
        Product("tiny", "down", 256, (("q6_K", 32),)),
    ),
    vector_tokens=(1, 2),
    product_tokens=(2, 16),
    rows_per_warp=(0, 1),
    splits=(0,),
    product_splits=(0,),
    rows=((64, 1),),
    contexts=(
        Context("tiny", 2, 1, 64, "q8_0:q4_0", 32),
        Context("tiny", 2, 1, 64, "f16", 32, 4, prompt=True),
    ),
    cache_bytes=1 << 14,
    repetitions=2,
)
