"""What a step takes: a model of an 8B Q4_K_M on the Jetson AGX Orin, not a measurement of one.

A step reads all weights once, whatever the number of its tokens, and multiplies them with every
token; the slower of the two limits it. Attention comes on top.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True)
class Work:
    """What a step computes.

    Attributes:
        tokens: rows of the batch.
        recomputed: of them, tokens that had been computed before a preemption.
        kv_tokens: cells that attention reads: for each sequence, up to its last row.
        pairs: (query, key) pairs of attention.
    """

    tokens: int
    recomputed: int
    kv_tokens: int
    pairs: int


@dataclass(frozen=True)
class CostModel:
    """Sizes and rates; the defaults name their sources.

    Attributes:
        weight_bytes: read per step: 8B in Q4_K_M.
        bandwidth: bytes/s: LPDDR5 at 3199 MHz peaks at 204.8 GB/s; 75 % of it is the aim.
        parameters: multiplied with every token, two operations each.
        flops: 1/s: stock llama.cpp's prefill of the 8B shape on 16 multiprocessors of an H200,
            1379, 1444 and 1425 tokens/s in steps of 128, 512 and 2048, at 1.98 GHz. Scaled to the
            board's 1.3 GHz, that is about 960 tokens/s,
        fixed_tokens: and as much again in each step as this many tokens take.
        kv_bytes: per token: 32 layers × 8 heads × 128 × (K and V) in f16.
        pair_flops: per (query, key) pair: 4 operations × 4096 channels × 32 layers.
        overhead_ms: of every step: launches, sampling, the host's work. Assumed.
    """

    weight_bytes: float = 4.6 * GIB
    bandwidth: float = 0.75 * 204.8e9
    parameters: float = 8.03e9
    flops: float = 960 * 2 * 8.03e9
    fixed_tokens: int = 8
    kv_bytes: float = 32 * 8 * 128 * 2 * 2
    pair_flops: float = 4 * 4096 * 32
    overhead_ms: float = 1.0

    def step_ms(self, work: Work) -> float:
        return self._bound_ms(work.tokens) + self._attention_ms(work) + self.overhead_ms

    def useful_ms(self, work: Work) -> float:
        """The part of step_ms in which the limiting resource worked on what had to be computed."""
        return self._bound_ms(work.tokens - work.recomputed) + self._attention_ms(work)

    def _bound_ms(self, tokens: int) -> float:
        reading = self.weight_bytes / self.bandwidth
        computing = 2 * self.parameters * (tokens + self.fixed_tokens) / self.flops
        return 1e3 * max(reading, computing)

    def _attention_ms(self, work: Work) -> float:
        reading = self.kv_bytes * work.kv_tokens / self.bandwidth
        return 1e3 * (reading + self.pair_flops * work.pairs / self.flops)
