"""What an engine remembers of a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepRecord:
    """One step. Times in milliseconds; `started_ms` is of the clock of `time.monotonic()`.

    Attributes:
        number: from 1, without gaps.
        started_ms: when it was planned, or when the step before was handed out where that was
            later: steps do not overlap.
        duration_ms: until its tokens were handed out.
        compute_ms: in llama.cpp; sampling_ms: drawing tokens. Both are part of `duration_ms`.
        n_prompt_tokens: with any, it is a step of prefill, else of decode.
        n_decode_tokens: one of each sequence that decodes.
        kv_tokens: in pages that a sequence holds, after the step; shared ones once.
        kv_bytes_used: of those pages.
        kv_bytes_committed: that the KV cache has of the system.
        kv_lookups: pages that attention read, summed over the sequences whose tokens it computed.
        kv_misses: of them, those that were taken or copied for this step.
        kv_evictions: cached pages that were given up since the step before was planned.
        preemptions: requests that had to give way since then.
        publish_ms: the end of `duration_ms`, after computation and sampling: what follows from the
            drawn tokens, and handing them out.

    Where nothing is paged the numbers of pages are 0. Steps that failed are in no record; what was
    given up for one that could not be started is counted with the next.
    """

    number: int
    started_ms: float
    duration_ms: float
    compute_ms: float
    sampling_ms: float
    n_prompt_tokens: int
    n_decode_tokens: int
    kv_tokens: int
    kv_bytes_used: int
    kv_bytes_committed: int
    kv_lookups: int = 0
    kv_misses: int = 0
    kv_evictions: int = 0
    preemptions: int = 0
    publish_ms: float = 0.0

    @property
    def host_ms(self) -> float:
        """What is neither computation nor sampling: planning, upload, handing out."""
        return self.duration_ms - self.compute_ms - self.sampling_ms
