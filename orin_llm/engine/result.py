"""What a completion gives back: chunks while it runs, a result when it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orin_llm.engine.load_times import LoadTimes
from orin_llm.percentile import PERCENTS, percentile

FinishReason = Literal["stop", "length", "cancelled", "deadline"]


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
    """Times of one completion, of one monotonic clock, as the engine's thread sees them.

    Attributes:
        submitted_ms: the start of the completion, by the clock of `time.monotonic()`.
        load: making the engine.
        ttft_ms: from the start of the completion to its first token, also if that ends it.
        itl_ms: every gap between two tokens, an end token included.
        e2el_ms: from the start of the completion to its last token.
        queue_ms: from the start to the first step with tokens of it; part of ttft, as the next is.
        prefill_ms: from then to its first logits; steps of others in between count.
        upload_ms: bringing tokens to where they are computed, in all steps with tokens of it.
        sampling_ms: drawing its tokens: its share of what each step took for all.
        prefill_tokens_per_s: prompt tokens computed (not the cached ones) over prefill_ms.
        bandwidth_bytes_per_s: weights and KV read per decoded token times the decode rate.
    """

    submitted_ms: float
    load: LoadTimes
    ttft_ms: float
    itl_ms: tuple[float, ...]
    e2el_ms: float
    queue_ms: float
    prefill_ms: float
    upload_ms: float
    sampling_ms: float
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
        return percentile(sorted(self.itl_ms), percent) if self.itl_ms else 0.0


@dataclass(frozen=True)
class KvStats:
    """What a completion holds of the KV cache. Where memory is not paged, a page is one token.

    Attributes:
        pages_used: pages that hold its tokens, shared ones included.
        pages_total: of the cache, for all completions and earlier prompts together.
        bytes_used: of the pages used; bytes_reserved: of all.
        hit_rate: pages that were there already among all that attention read, of all completions
            since the engine was made; None where nothing is paged.
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
    def paged(
        cls, n_tokens: int, page_size: int, n_pages: int, token_bytes: int, hit_rate: float
    ) -> KvStats:
        used = -(-n_tokens // page_size)
        page_bytes = page_size * token_bytes
        return cls(
            page_size=page_size,
            pages_used=used,
            pages_total=n_pages,
            bytes_used=used * page_bytes,
            bytes_reserved=n_pages * page_bytes,
            hit_rate=hit_rate,
            fragmentation=1 - n_tokens / (used * page_size) if used else 0.0,
        )

    @classmethod
    def unpaged(cls, n_tokens: int, n_ctx: int, token_bytes: int) -> KvStats:
        return cls(
            page_size=1,
            pages_used=n_tokens,
            pages_total=n_ctx,
            bytes_used=n_tokens * token_bytes,
            bytes_reserved=n_ctx * token_bytes,
        )


@dataclass(frozen=True)
class Result:
    """A finished (or stopped) completion. `token_ids` leaves out the token that ended it.

    `preemptions` is how often it had to give its pages to others and was computed anew.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    preemptions: int
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
            "preemptions": self.preemptions,
            "timings": {
                "load_ms": timings.load.load_ms,
                "load": timings.load.to_dict(),
                "queue_ms": timings.queue_ms,
                "prefill_ms": timings.prefill_ms,
                "upload_ms": timings.upload_ms,
                "sampling_ms": timings.sampling_ms,
                "ttft_ms": timings.ttft_ms,
                "tpot_ms": timings.tpot_ms,
                "itl_ms": {f"p{p}": timings.itl_percentile_ms(p) for p in PERCENTS},
                "e2el_ms": timings.e2el_ms,
                "prefill_tokens_per_s": timings.prefill_tokens_per_s,
                "decode_tokens_per_s": timings.decode_tokens_per_s,
                "bandwidth_bytes_per_s": timings.bandwidth_bytes_per_s,
            },
            "kv": dict(self.kv.__dict__),
        }
