"""TTFT and TPOT of a model for each power mode and depth, and how many sequences fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_llm.errors import UsageError
from orin_llm.estimate.roofline import IDEAL, Factors, Rates, Time, step_time, total_time
from orin_llm.estimate.target import Target
from orin_llm.estimate.work import Work, decode_step, prefill_steps, refuse_unmodelled
from orin_llm.gguf.header import Header
from orin_llm.models import describe
from orin_llm.models.fit import Fit, fit

_DEPTHS = (512, 2048, 8192)


@dataclass(frozen=True)
class Point:
    """A prompt of `depth` tokens, and the token after it, in one power mode.

    Attributes:
        ttft: from the start of its prefill to the first token.
        tpot: of the token that is decoded behind it.
        ttft_floor_ms, tpot_floor_ms: with every rate of the data sheet used in full.
    """

    rates: Rates
    depth: int
    ttft: Time
    tpot: Time
    ttft_floor_ms: float
    tpot_floor_ms: float

    def to_json(self) -> dict[str, Any]:
        """Times, the rates that follow, and what limits them."""
        return {
            "mode": self.rates.mode,
            "depth": self.depth,
            "ttft_ms": self.ttft.ms,
            "ttft_limit": self.ttft.limit,
            "ttft_floor_ms": self.ttft_floor_ms,
            "prefill_tokens_per_s": 1e3 * self.depth / self.ttft.ms,
            "tpot_ms": self.tpot.ms,
            "tpot_limit": self.tpot.limit,
            "tpot_floor_ms": self.tpot_floor_ms,
            "decode_tokens_per_s": 1e3 / self.tpot.ms,
        }


@dataclass(frozen=True)
class Estimate:
    """What was worked out, and from what.

    Attributes:
        decode: work of the token behind each depth.
        prefill_flops: of a prompt of each depth.
        points: for each power mode, each depth.
    """

    path: Path
    target: Target
    factors: Factors
    decode: dict[int, Work]
    prefill_flops: dict[int, int]
    points: tuple[Point, ...]
    fit: Fit

    def to_json(self) -> dict[str, Any]:
        """All of it, marked as an estimate."""
        module = self.target.module
        return {
            "estimate": True,
            "measured": False,
            "path": str(self.path),
            "board": {"name": module.name, "part": module.part},
            "modes": [_mode_json(rates) for rates in self.target.modes],
            "factors": self.factors.to_json(),
            "work": [
                {
                    "depth": depth,
                    "prefill_flops": self.prefill_flops[depth],
                    "decode_flops": work.flops,
                    "decode_read_bytes": work.bytes,
                }
                for depth, work in self.decode.items()
            ],
            "points": [point.to_json() for point in self.points],
            "memory": self.fit.to_json(),
        }


def _mode_json(rates: Rates) -> dict[str, Any]:
    return {
        "name": rates.mode,
        "sm_count": rates.sm_count,
        "gpu_mhz": rates.gpu_mhz,
        "emc_mhz": rates.emc_mhz,
        "bandwidth_bytes_per_s": rates.bandwidth_gb_s * 1e9,
        "flops_per_s": rates.tflops * 1e12,
    }


def default_depths(header: Header) -> tuple[int, ...]:
    """A short, a medium and a long prompt, as far as the model's context has room for them."""
    longest = describe.context(header)
    depths = tuple(depth for depth in _DEPTHS if not longest or depth < longest)
    return depths or (max(1, longest // 2),)


def estimate(
    header: Header,
    path: Path,
    target: Target,
    *,
    depths: Sequence[int],
    factors: Factors,
    ctx: int = 0,
    chunk_size: int = 512,
    kv_type: str = "f16",
) -> Estimate:
    """Work out every combination of the target's modes and `depths` (tokens of prompt, 1 or more).

    Raises:
        ModelFileError: a model whose work cannot be counted.
        UsageError: a depth beyond the model's context, or an unknown `kv_type`.
    """
    refuse_unmodelled(header, path)
    longest = describe.context(header)
    if longest and max(depths) >= longest:
        raise UsageError(
            f"a depth of {max(depths)} tokens leaves no room for an answer: {path.name} has a "
            f"context of {longest}"
        )
    decode = {depth: decode_step(header, depth + 1, kv_type) for depth in depths}
    prefill = {depth: list(prefill_steps(header, depth, chunk_size, kv_type)) for depth in depths}
    points = [
        Point(
            rates=rates,
            depth=depth,
            ttft=total_time(prefill[depth], rates, factors),
            tpot=step_time(decode[depth], rates, factors),
            ttft_floor_ms=total_time(prefill[depth], rates, IDEAL).ms,
            tpot_floor_ms=step_time(decode[depth], rates, IDEAL).ms,
        )
        for rates in target.modes
        for depth in decode
    ]
    return Estimate(
        path=path,
        target=target,
        factors=factors,
        decode=decode,
        prefill_flops={depth: sum(work.flops for work in prefill[depth]) for depth in decode},
        points=tuple(points),
        fit=fit(header, target.memory, ctx=ctx, chunk_size=chunk_size, kv_type=kv_type),
    )
