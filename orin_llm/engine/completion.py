"""A completion: prompt in, chunks of text out, one token at a time."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise

from orin_llm import _native
from orin_llm.engine.config import MAX_SEED, SamplingParams
from orin_llm.engine.engine import Engine
from orin_llm.engine.request import Request
from orin_llm.engine.result import Chunk, FinishReason, KvStats, Result, Timings, TokenLogprobs
from orin_llm.errors import OrinError, PromptTooLong, UsageError
from orin_llm.gguf.footprint import bytes_read_per_token, kv_bytes_per_token
from orin_llm.text.stops import StopMatcher
from orin_llm.text.utf8 import Utf8Stream

_INT64_MAX = (1 << 63) - 1
_SIGNAL_CHECK_MS = 50.0  # a thread that waits for a token looks this often for Ctrl-C


class Completion(Iterator[Chunk], AsyncIterator[Chunk]):
    """An iterator over the chunks of an answer; `result` is there when it is done or closed.

    The engine computes it whether it is iterated or not. Ctrl-C while it waits raises
    KeyboardInterrupt out of the iteration, which can then go on or be closed. Threads that iterate
    the same completion share its chunks: each gets others.
    """

    def __init__(self, engine: Engine, request: Request) -> None:
        self._engine = engine
        self._request = request
        self._prompt = list(request.prompt_tokens)
        if len(self._prompt) >= engine.n_ctx:
            raise PromptTooLong(
                f"the prompt has {len(self._prompt)} tokens, the context holds {engine.n_ctx} "
                f"with the answer: shorten the prompt or choose a larger {engine.more_room}"
            )
        outside = [t for t in (min(self._prompt), max(self._prompt)) if not 0 <= t < engine.n_vocab]
        if outside:
            raise UsageError(
                f"the prompt names token {outside[0]}, outside the vocabulary of "
                f"{engine.n_vocab} tokens"
            )
        room = engine.n_ctx - len(self._prompt)
        self._max_tokens = room if request.max_tokens is None else min(room, request.max_tokens)
        self._end_ids = frozenset() if request.ignore_eos else engine.eog_ids
        self._utf8 = Utf8Stream()
        self._stops = StopMatcher(request.stop)
        self._lock = threading.RLock()  # of all below; a signal's handler may close what it stops
        self._drawn: deque[_native.DrawnToken] = deque()  # not looked at yet
        self._token_ids: list[int] = []
        self._texts: list[str] = []
        self._times_ms: list[float] = []  # of each token looked at, an end token too
        self._finish_reason: FinishReason | None = None
        self._end = False
        self._submitted_ms = time.monotonic() * 1e3
        self._native: _native.Completion | None = None  # none: nothing to compute
        if self._max_tokens > 0:
            self._native = engine.runner.submit(
                self._prompt,
                max_tokens=self._max_tokens,
                sampler=_make_sampler(engine, request.sampling, self._prompt),
                n_logprobs=-1 if request.logprobs is None else min(request.logprobs, _INT64_MAX),
                ignore_eos=request.ignore_eos,
                priority=request.priority,
                timeout_ms=0.0 if request.timeout_s is None else request.timeout_s * 1e3,
            )

    # Iteration

    def __next__(self) -> Chunk:
        while (chunk := self._take()) is None:
            if self._end:
                raise StopIteration
            assert self._native is not None  # without it there is nothing to wait for
            self._native.wait(len(self._times_ms), _SIGNAL_CHECK_MS)
        return chunk

    async def __anext__(self) -> Chunk:
        await asyncio.sleep(0)  # where tokens are always there, others get their turn, too
        while (chunk := self._take()) is None:
            if self._end:
                raise StopAsyncIteration
            await self._engine._wakers.of_running_loop().wait(self._has_news)
        return chunk

    def _has_news(self) -> bool:
        return self._native is None or self._native.wait(len(self._times_ms), 0)

    def _take(self) -> Chunk | None:
        """The next chunk; None where it has not come yet, and at the end."""
        with self._lock:
            return None if self._end or not self._look() else self._advance()

    def _look(self) -> bool:
        """Whether the next chunk is there. Raises what made the engine give the request up."""
        if self._drawn or self._native is None or len(self._token_ids) >= self._max_tokens:
            return True
        self._drawn.extend(self._native.tokens_from(len(self._times_ms)))
        if self._drawn or self._native.report()["ending"] == "":
            return bool(self._drawn)
        # It ended, perhaps after the first look: these are all.
        self._drawn.extend(self._native.tokens_from(len(self._times_ms)))
        return True

    def _advance(self) -> Chunk:
        if not self._drawn:
            return self._finish(self._reason())
        token, time_ms, logprobs = self._drawn.popleft()
        self._times_ms.append(time_ms)
        if token in self._end_ids:
            return self._finish("stop")
        self._token_ids.append(token)
        text, stopped = self._stops.push(self._utf8.push(self._engine.token_bytes(token)))
        self._texts.append(text)
        if stopped:
            self._finish("stop")
        return Chunk(text, (token,), _token_logprobs(logprobs))

    def _reason(self) -> FinishReason:
        if self._native is None or len(self._token_ids) >= self._max_tokens:
            return "length"
        return "deadline" if self._native.report()["ending"] == "deadline" else "cancelled"

    def _finish(self, reason: FinishReason) -> Chunk:
        """The last chunk: text held back that did not become a stop string."""
        self._finish_reason = reason
        if self._native is not None:
            self._native.cancel()
        text = self._stops.flush()
        self._texts.append(text)
        self._kv = self._kv_stats()
        self._end = True
        return Chunk(text)

    def close(self) -> None:
        """End the completion here; what was written stays in `result`."""
        with self._lock:
            if not self._end:
                self._finish("cancelled")

    # Result

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt, cached ones included."""
        return len(self._prompt)

    @property
    def result(self) -> Result:
        """The result so far; complete once the iteration has ended or was closed."""
        report = None if self._native is None else self._native.report()
        return Result(
            text="".join(self._texts),
            token_ids=tuple(self._token_ids),
            finish_reason=self._finish_reason or "cancelled",
            prompt_tokens=len(self._prompt),
            cached_tokens=report["cached_tokens"] if report else 0,
            preemptions=report["preemptions"] if report else 0,
            timings=self._timings(report),
            kv=self._kv if self._end else self._kv_stats(),
        )

    def _timings(self, report: _native.CompletionReport | None) -> Timings:
        engine, times = self._engine, self._times_ms
        begun = report["submitted_ms"] if report else self._submitted_ms
        ttft_ms = times[0] - begun if times else 0.0
        itl_ms = tuple(b - a for a, b in pairwise(times))
        mean_context = len(self._prompt) + len(self._token_ids) / 2
        bytes_per_token = bytes_read_per_token(engine.header) + mean_context * kv_bytes_per_token(
            engine.header, engine.config.kv_type
        )
        decode_s = sum(itl_ms) / 1e3
        started = report["started_ms"] if report else 0.0
        prefilled = report["prefilled_ms"] if report else 0.0
        prefill_ms = prefilled - started if prefilled else 0.0
        computed = len(self._prompt) - (report["cached_tokens"] if report else 0)
        return Timings(
            submitted_ms=begun,
            load=engine.load,
            ttft_ms=ttft_ms,
            itl_ms=itl_ms,
            e2el_ms=times[-1] - begun if times else 0.0,
            queue_ms=started - begun if started else 0.0,
            prefill_ms=prefill_ms,
            upload_ms=report["upload_ms"] if report else 0.0,
            sampling_ms=report["sampling_ms"] if report else 0.0,
            prefill_tokens_per_s=computed / prefill_ms * 1e3 if prefill_ms else 0.0,
            bandwidth_bytes_per_s=bytes_per_token * len(itl_ms) / decode_s if decode_s else 0.0,
        )

    def _kv_stats(self) -> KvStats:
        engine = self._engine
        # The newest token is drawn but not yet in the cache.
        n_tokens = len(self._prompt) + max(len(self._token_ids) - 1, 0)
        token_bytes = kv_bytes_per_token(engine.header, engine.config.kv_type)
        try:
            kv = engine.stats()["kv"]
        except OrinError:  # it is closed
            kv = None
        if kv is None:
            return KvStats.unpaged(n_tokens, engine.n_ctx, token_bytes)
        n_pages = kv["pages_used"] + kv["pages_cached"] + kv["pages_free"]
        return KvStats.paged(
            n_tokens, engine.config.page_size, n_pages, token_bytes, kv["hit_rate"]
        )


def _token_logprobs(logprobs: list[tuple[int, float]]) -> tuple[TokenLogprobs, ...]:
    if not logprobs:
        return ()
    *top, (token, chosen) = logprobs
    return (TokenLogprobs(token, chosen, tuple(top)),)


def _make_sampler(engine: Engine, params: SamplingParams, prompt: Sequence[int]) -> _native.Sampler:
    for token in params.logit_bias:
        if not 0 <= token < engine.n_vocab:
            raise UsageError(
                f"logit_bias names token {token}, outside the vocabulary of {engine.n_vocab} tokens"
            )
    window = engine.n_ctx if params.penalty_window < 0 else min(params.penalty_window, engine.n_ctx)
    sampler = _native.Sampler(
        _native.SamplingParams(
            temperature=params.temperature,
            top_k=params.top_k,
            top_p=params.top_p,
            min_p=params.min_p,
            repeat_penalty=params.repeat_penalty,
            frequency_penalty=params.frequency_penalty,
            presence_penalty=params.presence_penalty,
            order=params.order,
            seed=secrets.randbelow(MAX_SEED + 1) if params.seed is None else params.seed,
        ),
        penalty_window=window,
        logit_bias=list(params.logit_bias.items()),
    )
    for token in prompt[len(prompt) - min(window, len(prompt)) :]:
        sampler.see(token)
    return sampler
