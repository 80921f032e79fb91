"""Does a model fit, and how many sequences of it: the sum of weights, activations and KV caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orin_llm.device.budget import MemoryBudget
from orin_llm.gguf import footprint
from orin_llm.gguf.header import Header
from orin_llm.models import describe

if TYPE_CHECKING:
    from orin_llm.models.tables import TokenTables

KEPT_FREE = 0.10  # of the budget, for everything that is not counted here


@dataclass(frozen=True)
class Fit:
    """The memory arithmetic. All sizes in bytes.

    Attributes:
        ctx: tokens per sequence.
        chunk_size: prompt tokens computed in one step.
        kv_type: element type of the KV cache.
        weights: all tensors.
        activations: estimate of a step's working memory.
        kv: KV cache of one sequence of `ctx` tokens, the state of recurrent layers included.
        logits: one row of logits, which each sequence needs too.
        budget: what there is, and where.
        table_copy: of weights that are there a second time (TokenTables.copy_bytes).
    """

    ctx: int
    chunk_size: int
    kv_type: str
    weights: int
    activations: int
    kv: int
    logits: int
    budget: MemoryBudget
    table_copy: int = 0

    @property
    def usable(self) -> int:
        """The budget less what is kept free."""
        return int(self.budget.bytes * (1 - KEPT_FREE))

    @property
    def left(self) -> int:
        """For sequences; below 0 where not even the weights fit."""
        return self.usable - self.weights - self.table_copy - self.activations

    @property
    def sequences(self) -> int:
        """Sequences of `ctx` tokens that fit at the same time."""
        return max(0, self.left // max(1, self.kv + self.logits))

    @property
    def fits(self) -> bool:
        """Does at least one sequence fit?"""
        return self.sequences > 0

    def to_json(self) -> dict[str, Any]:
        """All figures, sizes with the suffix `_bytes`."""
        return {
            "ctx": self.ctx,
            "chunk_size": self.chunk_size,
            "kv_type": self.kv_type,
            "weights_bytes": self.weights,
            "table_copy_bytes": self.table_copy,
            "activations_bytes": self.activations,
            "kv_bytes_per_sequence": self.kv,
            "logits_bytes_per_sequence": self.logits,
            "available_bytes": self.budget.bytes,
            "usable_bytes": self.usable,
            "place": self.budget.place,
            "sequences": self.sequences,
            "fits": self.fits,
        }


def fit(
    header: Header,
    budget: MemoryBudget,
    *,
    ctx: int = 0,
    chunk_size: int = 512,
    kv_type: str = "f16",
    tables: TokenTables | None = None,
) -> Fit:
    """Work out the memory for sequences of `ctx` tokens (0: the model's own, at most 8192).

    Args:
        tables: where this machine keeps the tables of tokens; None: nowhere twice.

    Raises:
        UsageError: an unknown `kv_type`.
    """
    longest = footprint.DEFAULT_MAX_CTX
    ctx = ctx or min(describe.context(header) or longest, longest)
    return Fit(
        ctx=ctx,
        chunk_size=chunk_size,
        kv_type=kv_type,
        weights=footprint.weight_bytes(header),
        activations=footprint.activation_bytes(header, ctx, chunk_size),
        kv=footprint.kv_bytes(header, ctx, kv_type) + footprint.state_bytes(header),
        logits=footprint.logits_bytes(header),
        budget=budget,
        table_copy=0 if tables is None or budget.is_gpus_own else tables.copy_bytes,
    )
