"""What a completion gives back: chunks while it runs, a result when it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True)
class TokenLogprobs:
    """A chosen token with its natural-log probability, and the likeliest tokens at its place."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Chunk:
    """What one step added. Text that may become a stop string, or half a character, waits."""

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True)
class Timings:
    """Times of one completion.

    Attributes:
        load_ms: loading the engine's model.
        ttft_ms: from the start of the completion to its first token, also if that ends it.
        itl_ms: every gap between two tokens, an end token included, as the caller sees them: what
            it does with a chunk before it asks for the next one counts.
        prefill_tokens_per_s: prompt tokens computed (not the cached ones) over ttft.
        bandwidth_bytes_per_s: weights and KV read per decoded token times the decode rate.
    """

    load_ms: float
    ttft_ms: float
    itl_ms: tuple[float, ...]
    prefill_tokens_per_s: float
    bandwidth_bytes_per_s: float

    @property
    def tpot_ms(self) -> float:
        """Mean time per output token after the first; 0 with fewer than two tokens."""
        return sum(self.itl_ms) / len(self.itl_ms) if self.itl_ms else 0.0

    @property
    def decode_tokens_per_s(self) -> float:
        return 1e3 / self.tpot_ms if self.tpot_ms else 0.0

    def itl_percentile_ms(self, percent: float) -> float:
        """A percentile of the gaps between tokens, by linear interpolation; 0 without gaps."""
        if not self.itl_ms:
            return 0.0
        ordered = sorted(self.itl_ms)
        place = (len(ordered) - 1) * percent / 100
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True)
class KvStats:
    """The KV cache after a completion. Where the model's memory is not paged, a page is one token.

    Attributes:
        pages_used: pages that hold a token of this sequence.
        bytes_used: of those pages; bytes_reserved: what the cache may grow to.
        hit_rate: pages that were there already among all that attention read, since the engine
            was made; None where nothing is paged.
        fragmentation: part of the used pages that holds no token.
    """

    page_size: int
    pages_used: int
    pages_total: int
    bytes_used: int
    bytes_reserved: int
    hit_rate: float | None = None
    fragmentation: float = 0.0

    @classmethod
    def of_pages(cls, counters: Mapping[str, float]) -> KvStats:
        """From what a session counts (see cpp/pages/page_counters.h)."""
        used, page_bytes = int(counters["used"]), int(counters["page_bytes"])
        total = used + int(counters["cached"] + counters["free"])
        return cls(
            page_size=int(counters["page_size"]),
            pages_used=used,
            pages_total=total,
            bytes_used=used * page_bytes,
            bytes_reserved=total * page_bytes,
            hit_rate=counters["hit_rate"],
            fragmentation=counters["fragmentation"],
        )


@dataclass(frozen=True)
class Result:
    """A finished (or stopped) completion. `token_ids` leaves out the token that ended it."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    timings: Timings
    kv: KvStats

    @property
    def completion_tokens(self) -> int:
        return len(self.token_ids)

    def to_dict(self) -> dict[str, object]:
        """The machine-readable form: milliseconds end in _ms, rates in _per_s."""
        timings = self.timings
        return {
            "text": self.text,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "token_ids": list(self.token_ids),
            "finish_reason": self.finish_reason,
            "timings": {
                "load_ms": timings.load_ms,
                "ttft_ms": timings.ttft_ms,
                "tpot_ms": timings.tpot_ms,
                "itl_ms": {f"p{p}": timings.itl_percentile_ms(p) for p in (50, 90, 95, 99)},
                "prefill_tokens_per_s": timings.prefill_tokens_per_s,
                "decode_tokens_per_s": timings.decode_tokens_per_s,
                "bandwidth_bytes_per_s": timings.bandwidth_bytes_per_s,
            },
            "kv": dict(self.kv.__dict__),
        }
