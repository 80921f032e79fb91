"""What one run of a workload leaves: when each token of each request was there, and the steps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from orin_llm.errors import OrinError

if TYPE_CHECKING:
    from orin_llm.device.reading import Reading
    from orin_llm.engine import StepRecord


@dataclass(frozen=True)
class RequestRecord:
    """One request. Times are milliseconds of one monotonic clock.

    Attributes:
        role: its part in the workload, such as "stream" or "long".
        submitted_ms: when it was handed over.
        token_ms: when each token of the answer was there; of a server, each event with text.
        finished_ms: when it was complete.
        prompt_tokens: of the whole prompt; cached_tokens: of those, what was not computed.
        queue_ms: until it was first computed; None where that is not known.
        error: why it failed, or ""; error_kind: of few kinds, to be counted.
        told_tokens: of the answer, where they were counted apart from `token_ms`: a server puts
            several into one event, or a part of a character into none.
    """

    role: str
    submitted_ms: float
    token_ms: tuple[float, ...]
    finished_ms: float
    prompt_tokens: int
    cached_tokens: int = 0
    queue_ms: float | None = None
    preemptions: int = 0
    error: str = ""
    error_kind: str = ""
    told_tokens: int | None = None

    @property
    def output_tokens(self) -> int:
        return len(self.token_ms) if self.told_tokens is None else self.told_tokens

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that were computed."""
        return self.prompt_tokens - self.cached_tokens

    @property
    def ttft_ms(self) -> float | None:
        """From the request to its first token."""
        return self.token_ms[0] - self.submitted_ms if self.token_ms else None

    @property
    def itl_ms(self) -> tuple[float, ...]:
        """Every gap between two entries of `token_ms`."""
        return tuple(later - earlier for earlier, later in pairwise(self.token_ms))

    @property
    def e2el_ms(self) -> float:
        """From the request to its end."""
        return self.finished_ms - self.submitted_ms

    @property
    def tpot_ms(self) -> float | None:
        """(E2EL - TTFT) / (output tokens - 1); None with fewer than two tokens, or where all of
        them came at one time.
        """
        if self.ttft_ms is None or self.output_tokens < 2 or len(self.token_ms) < 2:
            return None
        return (self.e2el_ms - self.ttft_ms) / (self.output_tokens - 1)


@dataclass(frozen=True)
class KvUse:
    """The KV cache in one run; each step tells what of it was in use.

    Attributes:
        token_bytes: of one token, all layers together.
        bytes_reserved: what it may hold.
        lookups, misses: pages that attention read in all steps of the run; and those of them that
            had to be committed, copied or computed again for it.
    """

    token_bytes: int
    bytes_reserved: int
    lookups: int
    misses: int

    @property
    def hit_rate(self) -> float:
        return 1 - self.misses / self.lookups if self.lookups else 1.0


@dataclass(frozen=True)
class Run:
    """One repetition of a workload.

    Attributes:
        steps: of the engine, in order; none where the engine keeps no log.
        kv: None where nothing is paged.
        readings: of the machine's sensors, those of the run and the ones right around it, in order;
            none where nobody read them. They say nothing of single cores.
    """

    requests: tuple[RequestRecord, ...]
    steps: tuple[StepRecord, ...] = ()
    kv: KvUse | None = None
    readings: tuple[Reading, ...] = ()

    def completed(self, role: str | None = None) -> list[RequestRecord]:
        """The requests that did not fail; those of one role if given."""
        return [r for r in self.requests if not r.error and role in (None, r.role)]

    def require_all_completed(self) -> None:
        """Raise OrinError, with the reason, where a request failed."""
        for request in self.requests:
            if request.error:
                raise OrinError(f"a request failed: {request.error}")

    def one(self, role: str) -> RequestRecord:
        """The only completed request of a role. Raises ValueError where it is missing."""
        (request,) = self.completed(role)
        return request
