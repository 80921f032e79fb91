"""A completion: prompt in, chunks of text out, one token at a time."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from orin_llm import _native
from orin_llm.engine.config import MAX_SEED, SamplingParams
from orin_llm.engine.engine import Engine
from orin_llm.engine.result import Chunk, FinishReason, KvStats, Result, Timings, TokenLogprobs
from orin_llm.errors import PromptTooLong, UsageError
from orin_llm.gguf.footprint import bytes_read_per_token, kv_bytes_per_token
from orin_llm.text.stops import StopMatcher
from orin_llm.text.utf8 import Utf8Stream


@dataclass(frozen=True)
class Request:
    """What to complete and how.

    Attributes:
        prompt_tokens: the prompt, at least one token.
        sampling: how tokens are drawn.
        max_tokens: at most this many new tokens; None until the context is full.
        stop: texts that end the answer; they are not part of it.
        logprobs: how many of the likeliest tokens to report at each place; None for none.
    """

    prompt_tokens: Sequence[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None

    def __post_init__(self) -> None:
        if not self.prompt_tokens:
            raise UsageError("the prompt is empty: at least one token is needed")
        if self.max_tokens is not None and self.max_tokens < 0:
            raise UsageError(f"max_tokens is {self.max_tokens}: expected 0 or more")
        if self.logprobs is not None and self.logprobs < 0:
            raise UsageError(f"logprobs is {self.logprobs}: expected 0 or more")
        if any(not text for text in self.stop):
            raise UsageError("a stop text is empty: it would end every answer at once")


class Completion(Iterator[Chunk]):
    """An iterator over the chunks of an answer; `result` is there when it is done or closed.

    Ctrl-C during a step raises KeyboardInterrupt out of the iteration; what was computed stays in
    the KV cache and `result` holds what was written so far.
    """

    def __init__(self, engine: Engine, request: Request) -> None:
        self._engine = engine
        self._request = request
        self._prompt = list(request.prompt_tokens)
        if len(self._prompt) >= engine.n_ctx:
            raise PromptTooLong(
                f"the prompt has {len(self._prompt)} tokens, the context holds {engine.n_ctx} "
                "with the answer: shorten the prompt or choose a larger context "
                "(-c/--ctx-size, n_ctx in Python)"
            )
        room = engine.n_ctx - len(self._prompt)
        self._max_tokens = room if request.max_tokens is None else min(room, request.max_tokens)
        self._sampler = _make_sampler(engine, request.sampling, self._prompt)
        self._utf8 = Utf8Stream()
        self._stops = StopMatcher(request.stop)
        self._token_ids: list[int] = []
        self._texts: list[str] = []
        self._times: list[float] = []  # monotonic seconds of each token drawn, an end token too
        self._started = time.monotonic()
        self._cached_tokens = 0
        with engine._lock:
            self._kv_counters = engine.session.kv_counters()  # after the last step
        self._finish_reason: FinishReason | None = None
        self._end = False

    # Iteration

    def __next__(self) -> Chunk:
        if self._end:
            raise StopIteration
        if len(self._token_ids) >= self._max_tokens:
            return self._finish("length")
        token, logprobs = self._step()
        self._times.append(time.monotonic())
        if token in self._engine.eog_ids:
            return self._finish("stop")
        self._token_ids.append(token)
        text, stopped = self._stops.push(self._utf8.push(self._engine.token_bytes(token)))
        self._texts.append(text)
        if stopped:
            self._end = True
            self._finish_reason = "stop"
        return Chunk(text, (token,), logprobs)

    def _step(self) -> tuple[int, tuple[TokenLogprobs, ...]]:
        engine = self._engine
        with engine._lock:
            session = engine.session
            # The cache is nobody's until the step is done: an exception leaves it unknown.
            mine, engine._active = engine._active is self, None
            known = len(self._prompt) + len(self._token_ids)
            # One less: the newest token is drawn, not computed. Ctrl-C may have lost a drawn one.
            if mine and session.n_tokens == known - 1:
                session.decode(self._token_ids[-1])
            else:
                kept = session.prefill(self._prompt + self._token_ids)
                if not self._token_ids:
                    self._cached_tokens = kept
            token = session.sample(self._sampler)
            logprobs: tuple[TokenLogprobs, ...] = ()
            if self._request.logprobs is not None:
                *top, (_, chosen) = session.top_logprobs(self._request.logprobs, token)
                logprobs = (TokenLogprobs(token, chosen, tuple(top)),)
            self._kv_counters = session.kv_counters()
            engine._active = self
        return token, logprobs

    def _finish(self, reason: FinishReason) -> Chunk:
        """The last chunk: text held back that did not become a stop string."""
        self._end = True
        self._finish_reason = reason
        text = self._stops.flush()
        self._texts.append(text)
        return Chunk(text)

    def close(self) -> None:
        """End the completion here; what was written stays in `result`."""
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
        return Result(
            text="".join(self._texts),
            token_ids=tuple(self._token_ids),
            finish_reason=self._finish_reason or "cancelled",
            prompt_tokens=len(self._prompt),
            cached_tokens=self._cached_tokens,
            timings=self._timings(),
            kv=self._kv_stats(),
        )

    def _timings(self) -> Timings:
        engine, times = self._engine, self._times
        ttft_ms = (times[0] - self._started) * 1e3 if times else 0.0
        itl_ms = tuple((b - a) * 1e3 for a, b in pairwise(times))
        mean_context = len(self._prompt) + len(self._token_ids) / 2
        bytes_per_token = bytes_read_per_token(engine.header) + mean_context * kv_bytes_per_token(
            engine.header, engine.config.kv_type
        )
        decode_s = sum(itl_ms) / 1e3
        computed = len(self._prompt) - self._cached_tokens
        return Timings(
            load_ms=engine.load_ms,
            ttft_ms=ttft_ms,
            itl_ms=itl_ms,
            prefill_tokens_per_s=computed / ttft_ms * 1e3 if ttft_ms else 0.0,
            bandwidth_bytes_per_s=bytes_per_token * len(itl_ms) / decode_s if decode_s else 0.0,
        )

    def _kv_stats(self) -> KvStats:
        engine = self._engine
        if self._kv_counters is not None:
            return KvStats.of_pages(self._kv_counters)
        token_bytes = kv_bytes_per_token(engine.header, engine.config.kv_type)
        # The newest token is drawn but not yet in the cache.
        used = len(self._prompt) + max(len(self._token_ids) - 1, 0)
        return KvStats(
            page_size=1,
            pages_used=used,
            pages_total=engine.n_ctx,
            bytes_used=used * token_bytes,
            bytes_reserved=engine.n_ctx * token_bytes,
        )


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
