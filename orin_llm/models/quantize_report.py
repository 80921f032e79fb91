"""The mix of types in a quantized file, and where it is not what the kind of file says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orin_llm._native import QuantizedTensor
from orin_llm.models.quantize import Quantized
from orin_llm.models.quantize_plan import QuantizePlan


@dataclass(frozen=True)
class Share:
    """The tensors of one type."""

    type: str
    tensors: int
    weights: int
    bytes: int

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.bytes / self.weights


@dataclass(frozen=True)
class Fallback:
    """Tensors whose rows do not divide by the blocks of the type that they were to have.

    Attributes:
        n_inputs: weights in a row.
    """

    wanted_type: str
    type: str
    n_inputs: int
    tensors: int


def shares(plan: QuantizePlan) -> list[Share]:
    """By type, the one with the most bytes first."""
    groups: dict[str, list[QuantizedTensor]] = {}
    for tensor in plan.tensors:
        groups.setdefault(tensor.new_type, []).append(tensor)
    found = [
        Share(
            name,
            len(group),
            sum(tensor.n_weights for tensor in group),
            sum(tensor.new_bytes for tensor in group),
        )
        for name, group in groups.items()
    ]
    return sorted(found, key=lambda share: -share.bytes)


def total(plan: QuantizePlan) -> Share:
    """All tensors, under the name of the kind of file."""
    parts = shares(plan)
    return Share(
        plan.request.file_type.name,
        len(plan.tensors),
        sum(part.weights for part in parts),
        sum(part.bytes for part in parts),
    )


def fallbacks(tensors: Sequence[QuantizedTensor]) -> list[Fallback]:
    """What did not get its type, the most frequent first."""
    counts = Counter(
        (tensor.wanted_type, tensor.new_type, tensor.n_inputs)
        for tensor in tensors
        if tensor.wanted_type
    )
    return [Fallback(*key, count) for key, count in counts.most_common()]


def without_importance(plan: QuantizePlan) -> list[str]:
    """Names of the tensors that change type and that the importance matrix does not know."""
    importance = plan.request.importance
    if importance is None:
        return []
    return [
        tensor.name
        for tensor in plan.tensors
        if tensor.new_type != tensor.type
        and tensor.new_type not in ("F32", "F16", "BF16")
        and (
            tensor.name not in importance.weights
            or importance.weights[tensor.name].size != tensor.n_inputs * tensor.n_matrices
        )
    ]


def to_json(plan: QuantizePlan, done: Quantized | None) -> dict[str, Any]:
    """The plan; and what was written, where it was."""
    whole = total(plan)
    importance = plan.request.importance
    found: dict[str, Any] = {
        "source": str(plan.files[0]),
        "source_bytes": sum(file.stat().st_size for file in plan.files),
        "type": whole.type,
        "estimated_bytes": plan.file_bytes,
        "bits_per_weight": whole.bits_per_weight,
        "imatrix": None if importance is None else importance.file,
        "without_importance": without_importance(plan),
        "types": [
            {**asdict(share), "bits_per_weight": share.bits_per_weight} for share in shares(plan)
        ],
        "fallbacks": [asdict(fallback) for fallback in fallbacks(plan.tensors)],
        "tensors": [
            {
                "name": tensor.name,
                "old_type": tensor.type,
                "type": tensor.new_type,
                "wanted_type": tensor.wanted_type or tensor.new_type,
                "bytes": tensor.new_bytes,
            }
            for tensor in plan.tensors
        ],
    }
    if done is not None:
        found |= {
            "out": str(done.out),
            "file_bytes": done.file_bytes,
            "duration_ms": done.duration_ms,
            "source_bytes_per_s": 1e3 * plan.source_bytes / done.duration_ms,
            "threads": done.threads,
        }
    return found
