"""The time of a step: the slowest of reading its bytes, handling them and computing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from orin_llm.device.modules import f16_tflops
from orin_llm.errors import UsageError
from orin_llm.estimate.work import Work

Limit = Literal["memory", "multiprocessors", "arithmetic"]


@dataclass(frozen=True)
class Rates:
    """What a board can do at most in a power mode.

    Attributes:
        mode: the power mode's name.
        sm_count, gpu_mhz: multiprocessors that are on, and their clock under load.
        emc_mhz: the memory's clock.
        bandwidth_gb_s: GB/s at that clock, by the data sheet.
    """

    mode: str
    sm_count: int
    gpu_mhz: float
    emc_mhz: float
    bandwidth_gb_s: float

    @property
    def tflops(self) -> float:
        """TFLOP/s of dense f16 products, by the data sheet."""
        return f16_tflops(self.sm_count, self.gpu_mhz)

    @property
    def sm_clocks_per_s(self) -> float:
        """Clocks per second, of all multiprocessors together."""
        return self.sm_count * self.gpu_mhz * 1e6


@dataclass(frozen=True)
class Factors:
    """The part of each rate that a program gets. The defaults are those of stock llama.cpp.

    Attributes:
        bandwidth: of the memory's bandwidth. 0.57 is what 25 tokens/s of Qwen3 8B in Q4_K_M on an
            AGX Orin 64GB at MAXN come to (see `published`).
        compute: of the f16 products, in prefill. 0.20 lies between the 0.14 and 0.25 that 419 and
            774 tokens/s of an 8B on an AGX Orin come to, and is what llama.cpp gets of cuBLAS's
            f16 products on 16 multiprocessors of a larger GPU.
        bytes_per_clock: of weights and KV cache that one multiprocessor handles in a clock, in a
            step of one token. 7.3 is what 50.4 tokens/s of an 8B Q4_K_M on 16 multiprocessors of
            an H200 at 1.98 GHz come to, where its memory does not limit them. Not an Orin's: the
            least certain of the three.

    Raises:
        UsageError: a factor that no program can have.
    """

    bandwidth: float = 0.57
    compute: float = 0.20
    bytes_per_clock: float = 7.3

    def __post_init__(self) -> None:
        for name in ("bandwidth", "compute"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise UsageError(f"the {name} efficiency is {value}: expected more than 0, up to 1")
        if not 0 < self.bytes_per_clock <= 128:  # what a multiprocessor's L1 delivers in a clock
            raise UsageError(
                f"bytes per clock are {self.bytes_per_clock}: expected more than 0, up to 128"
            )

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


IDEAL = Factors(bandwidth=1.0, compute=1.0, bytes_per_clock=128.0)


@dataclass(frozen=True)
class Time:
    """How long, and what takes longest."""

    ms: float
    limit: Limit


def step_time(work: Work, rates: Rates, factors: Factors) -> Time:
    """The time of one step.

    A step of one token multiplies matrices with a vector: the multiprocessors unpack every weight
    for one product, and may be slower at it than the memory. A step of several uses each weight
    often enough for that to vanish.
    """
    seconds: dict[Limit, float] = {
        "memory": work.bytes / (factors.bandwidth * rates.bandwidth_gb_s * 1e9),
        "arithmetic": work.flops / (factors.compute * rates.tflops * 1e12),
    }
    if work.tokens == 1:
        handled = factors.bytes_per_clock * rates.sm_clocks_per_s
        seconds["multiprocessors"] = work.bytes / handled
        # Products with a vector run on the ordinary cores, as part of that handling.
        del seconds["arithmetic"]
    limit = max(seconds, key=lambda name: seconds[name])
    return Time(1e3 * seconds[limit], limit)


def total_time(steps: Iterable[Work], rates: Rates, factors: Factors) -> Time:
    """The time of steps one after another, and what limits most of it."""
    shares: dict[Limit, float] = {}
    for work in steps:
        time = step_time(work, rates, factors)
        shares[time.limit] = shares.get(time.limit, 0.0) + time.ms
    return Time(sum(shares.values()), max(shares, key=lambda name: shares[name]))
