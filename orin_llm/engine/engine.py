"""A model ready to answer: completions on it, their KV cache, and what is known about both."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orin_llm import _native
from orin_llm.closeable import Closeable
from orin_llm.engine.backend import describe_backend
from orin_llm.engine.config import EngineConfig
from orin_llm.engine.kv_memory import KvMemory, KvRoom
from orin_llm.engine.load_times import LoadTimes
from orin_llm.engine.loaded_model import LoadedModel, read_model_header
from orin_llm.engine.native_params import native_params, thread_count
from orin_llm.engine.progress import LoadProgress
from orin_llm.engine.step_record import StepRecord
from orin_llm.engine.wakers import LoopWakers
from orin_llm.errors import OrinError, UsageError
from orin_llm.gguf.footprint import kv_bytes_per_token
from orin_llm.gguf.kv_types import require_kv_types
from orin_llm.stats import StatsPublisher

if TYPE_CHECKING:
    from orin_llm.engine.completion import Completion
    from orin_llm.engine.request import Request


class Engine(Closeable, LoadedModel):
    """One loaded model with one KV cache, which computes many completions at once.

    Completions may be started from any thread and any event loop. A thread of the engine's own
    computes them together, step by step, while there are any.

    Args:
        path: a GGUF file.
        config: how to run it.
        on_progress: called while the weights load; an exception it raises stops the load.

    Attributes:
        load: what making it took.

    Raises:
        ModelFileError: the file is damaged, of another kind or not supported.
        UsageError: the configuration does not fit the model.
        OrinError: there is not enough memory.
    """

    def __init__(
        self,
        path: str | Path,
        config: EngineConfig | None = None,
        on_progress: Callable[[LoadProgress], None] | None = None,
    ) -> None:
        self.config = config or EngineConfig()
        started = time.monotonic()
        header = read_model_header(path)
        # Before anything is loaded:
        require_kv_types(header, self.config.kv_types)
        self.threads = thread_count(self.config)
        room = KvRoom.of(header, self.config)
        super().__init__(path, header, self.config, on_progress)
        loaded = time.monotonic()
        self.n_ctx = room.n_ctx
        self.kv_pages = room.pages
        self.more_room = room.choice
        self.native_params = native_params(self.config, room)
        self._runner: _native.Runner | None = _native.Runner(self.model, self.native_params)
        self._wakers = LoopWakers(self._runner)
        # At the latest when the interpreter ends: the thread must not outlive what it uses.
        self._process = os.getpid()
        self._at_exit = weakref.finalize(self, _stop, self._process, self._runner, self._wakers)
        ready = time.monotonic()
        self.load = LoadTimes.of(
            self.model.load_report, (loaded - started) * 1e3, (ready - loaded) * 1e3
        )
        self.publisher = StatsPublisher(self) if self.config.publish else None

    @property
    def runner(self) -> _native.Runner:
        """The native engine. Raises OrinError when the engine is closed."""
        if self._runner is None:
            raise OrinError("this engine is closed: make a new one")
        return self._runner

    # Work

    def complete(self, request: Request) -> Completion:
        """Start a completion: an iterator over chunks of text, for `for` and for `async for`.

        It is computed from now on, whether it is iterated or not; dropping it stops it.

        Raises:
            PromptTooLong: the prompt leaves no room for an answer in the context.
            UsageError: it names tokens that do not exist.
            OrinError: the engine is closed.
        """
        from orin_llm.engine.completion import Completion
        from orin_llm.engine.request import Request

        if not isinstance(request, Request):
            raise UsageError(f"{request!r} is no Request: Request(engine.tokenize(text)) makes one")
        return Completion(self, request)

    def forget(self) -> None:
        """Drop what the KV cache holds of earlier prompts, and give its memory back.

        What running completions hold stays.
        """
        self.runner.forget()

    # The KV cache

    def resize_kv(self, kv_memory: str | int) -> None:
        """Change what the KV cache may hold; memory beyond it is given back at once.

        Cached prompts are dropped where they are in the way. The most is what it was made with.

        Raises:
            UsageError: the limit holds less than one context, or more than the engine's own.
            OrinError: running completions need more, or the model's memory is not paged.
        """
        runner = self.runner  # of an engine that is not closed
        limit = KvMemory.parse(kv_memory)
        page_size = self.config.page_size
        pages = limit.pages(page_size, kv_bytes_per_token(self.header, self.config.kv_type))
        least, most = -(-self.n_ctx // page_size), self.kv_pages
        if not least <= pages <= most:
            raise UsageError(
                f"a KV memory of {kv_memory} holds {pages * page_size} tokens: expected "
                f"{least * page_size} (one context) … {most * page_size} (as the engine was made)"
            )
        if not runner.set_budget(pages):
            raise OrinError(
                f"running completions need more than {pages} pages: wait for them, or cancel some"
            )

    def read_kv(self, tokens: Sequence[int], first: int, n: int) -> bytes:
        """Keys and values of `tokens[first:]`: as many as whole cached pages hold, up to n.

        In order of positions, each token `kv_row_bytes` bytes: of each layer K, then V.

        Raises OrinError where the model's memory is not paged.
        """
        return self.runner.read_kv(list(tokens), first, n)

    def write_kv(self, tokens: Sequence[int], first: int, rows: bytes) -> int:
        """Put what `read_kv` gave for `tokens[first:]` into the cache, to be found as a prefix.

        Returns how many of the tokens whole cached pages hold now: fewer than `first` where not all
        before were cached, `first` where there is no room; nothing is written then.

        Raises OrinError where the model's memory is not paged.
        """
        return self.runner.write_kv(list(tokens), first, rows)

    @cached_property
    def kv_row_bytes(self) -> int:
        """Bytes of one token in the KV cache, all layers together; 0 where it is not paged."""
        return self.runner.kv_row_bytes()

    # What is known about it

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._runner is None

    def describe(self) -> dict[str, object]:
        """What the engine tells who attaches to its statistics: its model, settings and load."""
        backend = self.backend
        config = {**asdict(self.config), "hooks": backend["hooks"]}
        config["kernels"] = backend.get("kernels", {})
        config |= {"n_ctx": self.n_ctx, "threads": self.threads}
        load = {"load_ms": self.load.load_ms, **self.load.to_dict()}
        return {"model": str(self.model_path.absolute()), "config": config, "load": load}

    def stats(self) -> dict[str, Any]:
        """What the engine does and has done: plain numbers, nested; docs/statistics.md names them.

        Cheap: a copy of what the engine's thread publishes after every step.
        """
        return self.runner.stats()

    def step_log(self, after: int = 0) -> list[StepRecord]:
        """The last 4096 steps, or those of them whose number is above `after`; oldest first."""
        return [StepRecord(**record) for record in self.runner.steps_after(after)]

    @property
    def chunk_size(self) -> int:
        """Prompt tokens computed in one step: what was asked for, or less in a short context."""
        return self.runner.chunk_size

    @property
    def is_paged(self) -> bool:
        """Whether completions share one KV cache in pages; else they run one after another."""
        return self.runner.is_paged

    @property
    def backend(self) -> dict[str, Any]:
        """Where the work runs and which of our hooks are on, for machine-readable output.

        A hook that was asked for and does not serve this model or device is `unavailable`; `note`
        says why pages or sampling are, or which layers and products on a GPU stay llama.cpp's.
        `kv_type` is that of the KV cache (`q8_0:q4_0` of keys and of values), and `kv_memory` how
        it gets memory, or why that does not grow. Where a GPU computes in pages, `kernels` are its
        choices, and `products` counts those of weights in the latest graph: `ours`, `llama.cpp`,
        and how many of those cuBLAS makes at most (`cublas`).
        """
        return describe_backend(self)

    def close(self) -> None:
        """Stop within the step under way and free the model.

        Completions that are not finished end in an error.
        """
        if self.publisher is not None:
            self.publisher.close()
        runner = self._runner
        if runner is not None:
            _stop(self._process, runner, self._wakers)
        self._at_exit.detach()
        self._runner = None
        self._model = None


def _stop(process: int, runner: _native.Runner, wakers: LoopWakers) -> None:
    """End an engine's thread, and wait for it. A fork leaves it to the process that made it."""
    if process == os.getpid():
        runner.close()
        wakers.close()
