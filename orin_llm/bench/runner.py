"""Runs a workload on our engine and writes down what happened."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import accumulate

from orin_llm.bench.observer import Observer
from orin_llm.bench.records import RequestRecord, Run
from orin_llm.bench.workload import Submission, Wave, Workload
from orin_llm.device.sampler import Sampler
from orin_llm.engine import Completion, Engine, Hooks, Request, SamplingParams
from orin_llm.errors import OrinError

_GREEDY = SamplingParams(temperature=0)
_TOKENS_BEFORE = {"finished": None, "decoding": 2}
_SLICE_S = 0.1  # of a wait between two arrivals; the engine's log of steps is read in each


@dataclass
class _Ticket:
    """A request that was handed over. `tokens`: those that were seen of it."""

    submission: Submission
    completion: Completion
    tokens: int = 0
    done: bool = False
    error: str = ""


class EngineRunner:
    """Our engine as a contender.

    One thread submits and then reads one answer after another: the engine takes the times on its
    own thread, and readers that wake up for every token would take processor time from it.
    """

    def __init__(self, engine: Engine, sampler: Sampler | None = None) -> None:
        """`sampler`, which runs, reads the sensors that every run tells of."""
        self.engine = engine
        self.sampler = sampler

    @property
    def settings(self) -> dict[str, object]:
        """`name`, which says the hooks, and how the engine runs."""
        config = self.engine.config
        return {
            "name": f"orin-llm {hooks_text(config.hooks)}",
            "hooks": self.engine.backend["hooks"],
            "kernels": self.engine.backend.get("kernels", {}),
            "threads": self.engine.threads,
            "cpus": config.cpus,
            "chunk_size": self.engine.chunk_size,
            "page_size": config.page_size,
            "kv_type": config.kv_type,
            "flash_attention": config.flash_attention,
            "kv_memory": self.kv_memory,
            "prefix_cache": config.prefix_cache,
            "n_ctx": self.engine.n_ctx,
            "max_batch": config.max_batch,
        }

    @property
    def kv_memory(self) -> int:
        """Tokens that the KV cache may hold."""
        return self.engine.kv_pages * self.engine.config.page_size

    def run(self, workload: Workload) -> Run:
        """Run a workload from an empty KV cache.

        A request that fails is recorded with its error. Ctrl-C cancels all requests.

        Raises:
            OrinError: a request cannot be made at all, such as one that is too long.
        """
        self._wait_until_idle()  # what an earlier request leaves in the cache is there only then
        self.engine.forget()
        if workload.depth:
            self._serve(_depth_waves(workload), None)
            self._wait_until_idle()
        observer = Observer(self.engine, self.sampler)
        tickets = self._serve(workload.waves, observer)
        self._wait_until_idle()
        readings = observer.end()
        return Run(tuple(map(_record, tickets)), tuple(observer.steps), observer.kv(), readings)

    def _wait_until_idle(self) -> None:
        while any(self.engine.stats()["requests"][state] for state in ("running", "waiting")):
            time.sleep(0.001)

    def _serve(self, waves: tuple[Wave, ...], observer: Observer | None) -> list[_Ticket]:
        tickets: list[_Ticket] = []
        try:
            for wave in waves:
                for ticket in tickets:
                    self._read(ticket, observer, _TOKENS_BEFORE[wave.after])
                begin = time.monotonic()
                for submission in wave.submissions:
                    _wait_until(begin + submission.arrival_ms / 1e3, observer)
                    tickets.append(self._submit(submission))
            for ticket in tickets:
                self._read(ticket, observer, None)
        finally:
            for ticket in tickets:
                ticket.completion.close()
        return tickets

    def _submit(self, submission: Submission) -> _Ticket:
        request = Request(
            submission.prompt, _GREEDY, max_tokens=submission.max_tokens, ignore_eos=True
        )
        return _Ticket(submission, self.engine.complete(request))

    def _read(self, ticket: _Ticket, observer: Observer | None, tokens: int | None) -> None:
        """Read until a request has this many tokens, or to its end."""
        try:
            while not ticket.done and (tokens is None or ticket.tokens < tokens):
                chunk = next(ticket.completion, None)
                ticket.done = chunk is None
                ticket.tokens += len(chunk.token_ids) if chunk else 0
                if observer:
                    observer.look()
        except OrinError as error:
            ticket.done, ticket.error = True, str(error)


def hooks_text(hooks: Hooks) -> str:
    """The hooks as `--hooks` reads them: `all`, `none` or those that are off."""
    if hooks == Hooks():
        return "all"
    if hooks == Hooks.none():
        return "none"
    return ",".join(f"-{name}" for name in sorted(Hooks().enabled - hooks.enabled))


def _depth_waves(workload: Workload) -> tuple[Wave, ...]:
    """Requests for what is to be in the cache before."""
    return tuple(
        Wave(
            tuple(
                Submission("depth", submission.prompt[: workload.depth], 1)
                for submission in wave.submissions
            )
        )
        for wave in workload.waves
    )


def _wait_until(moment: float, observer: Observer | None) -> None:
    while (left := moment - time.monotonic()) > 0:
        time.sleep(min(left, _SLICE_S))
        if observer:
            observer.look()


def _record(ticket: _Ticket) -> RequestRecord:
    result = ticket.completion.result
    timings = result.timings
    first_ms = timings.submitted_ms + timings.ttft_ms
    token_ms = accumulate(timings.itl_ms, initial=first_ms)
    return RequestRecord(
        role=ticket.submission.role,
        submitted_ms=timings.submitted_ms,
        token_ms=tuple(token_ms) if result.token_ids else (),
        finished_ms=timings.submitted_ms + timings.e2el_ms,
        prompt_tokens=result.prompt_tokens,
        cached_tokens=result.cached_tokens,
        queue_ms=timings.queue_ms,
        preemptions=result.preemptions,
        error=ticket.error,
    )
