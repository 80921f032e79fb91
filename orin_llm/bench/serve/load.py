"""A load: which requests are made, and when."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat

from orin_llm.bench.lengths import Lengths
from orin_llm.bench.records import Run
from orin_llm.bench.serve.arrivals import Arrivals
from orin_llm.bench.serve.client import Order
from orin_llm.bench.serve.dataset import Entry
from orin_llm.bench.serve.driver import Driver
from orin_llm.bench.serve.goodput import Goodput
from orin_llm.bench.serve.prompts import WordCount, word_prompt
from orin_llm.bench.trace import TracedRequest
from orin_llm.errors import UsageError

MAX_USERS = 4096
_LEAST_REQUESTS, _ROUNDS = 16, 4  # where neither a number nor a time is given


@dataclass(frozen=True)
class Recorded:
    """What comes from a file: its name, and a trace or prompts."""

    name: str
    trace: tuple[TracedRequest, ...] = ()
    dataset: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Load:
    """Which requests are made, and when.

    Attributes:
        endpoint: one of client.ENDPOINTS.
        prompt, answer: lengths in tokens, where no file says them.
        arrivals: None: a closed loop, or a trace.
        max_concurrency: in a closed loop its users; else the most requests at once; None: no limit.
        requests: that are counted; None: as many as `duration_s` has room for, or a file has, or
            else some for each user.
        duration_s: while which requests are sent.
        ramp_s: before, in which the load grows; its requests are not counted.
        recorded: a file that says what is asked (dataset), or when and how long it is (trace).
        goodput: what is to be met; None: nothing is promised.
    """

    endpoint: str
    prompt: Lengths
    answer: Lengths
    arrivals: Arrivals | None = None
    max_concurrency: int | None = None
    requests: int | None = None
    duration_s: float | None = None
    ramp_s: float = 0.0
    recorded: Recorded | None = None
    goodput: Goodput | None = None

    def __post_init__(self) -> None:
        if self.max_concurrency is not None and not 1 <= self.max_concurrency <= MAX_USERS:
            raise UsageError(f"--concurrency {self.max_concurrency}: expected 1 … {MAX_USERS}")

    @property
    def _trace(self) -> tuple[TracedRequest, ...]:
        return self.recorded.trace if self.recorded else ()

    @property
    def _dataset(self) -> tuple[Entry, ...]:
        return self.recorded.dataset if self.recorded else ()

    @property
    def is_closed(self) -> bool:
        """Whether requests follow one another, not a clock."""
        return self.arrivals is None and not self._trace

    @property
    def counted(self) -> int | None:
        """Requests that are counted; None: until the time is over."""
        if self.requests is not None:
            return self.requests
        if self._trace:
            return len(self._trace)
        if self.duration_s is not None:
            return None
        if self._dataset:
            return len(self._dataset)
        return max(_LEAST_REQUESTS, _ROUNDS * (self.max_concurrency or 1))

    @property
    def driver(self) -> Driver:
        """Who makes the requests."""
        return Driver(
            self.max_concurrency, self.is_closed, self.ramp_s, self.duration_s, self.counted
        )

    @property
    def label(self) -> str:
        """The load in one short text: `serve ×4 p512 n128`, `serve 2/s p512 n128`."""
        parts = ["serve"]
        if self._trace and self.recorded:
            parts.append(f"trace {self.recorded.name}")
        if self.arrivals is not None:
            parts.append(f"{self.arrivals.rate_per_s:g}/s")
        if self.max_concurrency is not None:
            parts.append(f"×{self.max_concurrency}")
        if self._dataset and self.recorded:
            parts += [self.recorded.name, f"n{self.answer}"]
        elif not self._trace:
            parts += [f"p{self.prompt}", f"n{self.answer}"]
        return " ".join(parts)

    @property
    def settings(self) -> dict[str, object]:
        """For machine-readable output; what plays no part in this load is left out."""
        found: dict[str, object] = {"workload": "serve", "endpoint": self.endpoint}
        if self.arrivals is not None:
            found["rate_per_s"] = self.arrivals.rate_per_s
            even = self.arrivals.burstiness is None
            found["burstiness"] = "fixed" if even else self.arrivals.burstiness
        if self.max_concurrency is not None:
            found["max_concurrency"] = self.max_concurrency
        if self.recorded:
            found["trace" if self._trace else "dataset"] = self.recorded.name
        if not self.recorded:
            found["prompt_tokens"] = self.prompt.setting
        if not self._trace:
            found["max_tokens"] = self.answer.setting
        if self.counted is not None:
            found["requests"] = self.counted
        if self.duration_s is not None:
            found["duration_s"] = self.duration_s
        if self.ramp_s:
            found["ramp_s"] = self.ramp_s
        if self.goodput is not None:
            found["goodput"] = str(self.goodput)
        return found

    @property
    def n_ctx(self) -> int:
        """Tokens that its longest request can have, with the answer."""
        if self._trace:
            return max(r.prompt_tokens + r.max_tokens for r in self._trace)
        return self.prompt.high + self.answer.high

    @property
    def longest_prompt(self) -> int:
        """Tokens of the longest prompt that is made of words; 0: none is."""
        if self._dataset:
            return 0
        return max((r.prompt_tokens for r in self._trace), default=self.prompt.high)

    def orders(self, count: WordCount, seed: str) -> Iterator[Order]:
        """The requests; the same for the same arguments. Those of other seeds begin otherwise."""
        draw = random.Random(seed)
        if self._trace:
            for r in self._trace:
                yield self._worded(count, draw, r.prompt_tokens, r.max_tokens, r.arrival_ms / 1e3)
            return
        times = self.arrivals.times_s(draw) if self.arrivals else repeat(0.0)
        entries = chain.from_iterable(repeat(self._dataset))
        for at_s in times:
            answer = self.answer.draw(draw)
            if self._dataset:
                entry = next(entries)
                yield Order(entry.prompt, entry.max_tokens or answer, at_s)
            else:
                yield self._worded(count, draw, self.prompt.draw(draw), answer, at_s)

    @staticmethod
    def _worded(
        count: WordCount, draw: random.Random, prompt: int, answer: int, at_s: float
    ) -> Order:
        words = count.words(prompt)
        return Order(word_prompt(draw, words, count.tokens(words)), answer, at_s)

    def figures(self, run: Run, chunk_size: int) -> dict[str, float]:
        """What only a server is asked, of one run."""
        requests = run.completed()
        if not requests:
            return {}
        answered = sum(r.output_tokens for r in requests)
        found = {
            "prompt_tokens": sum(r.prompt_tokens for r in requests) / len(requests),
            "answer_tokens": answered / len(requests),
        }
        if cached := sum(r.cached_tokens for r in requests):
            found["cached_tokens"] = cached / len(requests)
        if answered != (events := sum(len(r.token_ms) for r in requests)):
            found["tokens_per_event"] = answered / events
        sent = [r.submitted_ms for r in run.requests]
        if self.arrivals is not None and max(sent) > min(sent):
            found["sent_per_s"] = (len(sent) - 1) / (max(sent) - min(sent)) * 1e3
        return {**found, **(self.goodput.figures(run) if self.goodput else {})}
