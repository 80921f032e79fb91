"""What a load took, part by part."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orin_llm import _native


@dataclass(frozen=True)
class LoadTimes:
    """From the start of an engine until it can take requests. The parts follow each other.

    Attributes:
        open_ms: the header is checked, the vocabulary read, memory for the weights taken.
        read_ms: the weights are read (mapped ones: brought into memory), checked if that is wanted,
            and put into their places.
        upload_ms: nothing could be read, for a GPU had not yet copied what was.
        warmup_ms: contexts, the KV cache's memory and the first graphs are made.
        weights_bytes: of the tensors that were read.
        direct_bytes: of them, those that were read around the page cache.
    """

    open_ms: float
    read_ms: float
    upload_ms: float
    warmup_ms: float
    weights_bytes: int
    direct_bytes: int

    @classmethod
    def of(cls, report: _native.LoadReport, weights_ms: float, warmup_ms: float) -> LoadTimes:
        """What was measured around the load of the weights, and what that says of itself."""
        return cls(
            open_ms=weights_ms - report["read_ms"] - report["upload_ms"],
            read_ms=report["read_ms"],
            upload_ms=report["upload_ms"],
            warmup_ms=warmup_ms,
            weights_bytes=report["bytes"],
            direct_bytes=report["direct_bytes"],
        )

    @property
    def weights_ms(self) -> float:
        """Until all weights are in their places."""
        return self.open_ms + self.read_ms + self.upload_ms

    @property
    def load_ms(self) -> float:
        """All of it."""
        return self.weights_ms + self.warmup_ms

    def to_dict(self) -> dict[str, float | int]:
        """For machine-readable output."""
        return asdict(self)
