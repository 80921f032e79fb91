"""What a load took, part by part."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class LoadTimes:
    """From the start of an engine until it can take requests. The parts follow each other.

    Attributes:
        open_ms: the header is checked, the vocabulary read, memory for the weights taken.
        read_ms: the weights are read (mapped ones: brought into memory), and what of uploads and
            rearranging goes on meanwhile.
        upload_ms: what then was still waited for until all weights were in their places.
        warmup_ms: contexts, the KV cache's memory and the first graphs are made.
        weights_bytes: of all tensors.
        direct: whether any of them were read around the page cache.
    """

    open_ms: float
    read_ms: float
    upload_ms: float
    warmup_ms: float
    weights_bytes: int
    direct: bool

    @property
    def weights_ms(self) -> float:
        """Until all weights are in their places."""
        return self.open_ms + self.read_ms + self.upload_ms

    def to_dict(self) -> dict[str, float | int | bool]:
        """For machine-readable output."""
        return asdict(self)
