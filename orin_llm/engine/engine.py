"""A model ready to answer: the file checked and loaded, its tokenizer, and completions on it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from orin_llm import _native
from orin_llm.engine.config import HOOK_NAMES, EngineConfig
from orin_llm.engine.progress import LoadProgress
from orin_llm.errors import ModelFileError, OrinError, UsageError
from orin_llm.gguf.footprint import DEFAULT_MAX_CTX, kv_bytes
from orin_llm.gguf.header import read_header
from orin_llm.gguf.kv_layers import Hyperparameters
from orin_llm.host.cpu import read_cpu
from orin_llm.host.memory import read_memory
from orin_llm.host.units import size_text

if TYPE_CHECKING:
    from orin_llm.engine.completion import Completion, Request


class Engine:
    """One loaded model with one KV cache.

    Completions may be started from any thread. They share the KV cache: each step holds the
    engine's lock, and one that finds the cache changed by another computes its prompt again.

    Args:
        path: a GGUF file.
        config: how to run it.
        on_progress: called while the weights load; an exception it raises stops the load.

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
        self.model_path = Path(path)
        started = time.monotonic()
        self.header = read_header(self.model_path)
        if not self.header.tensors:
            raise ModelFileError(
                f"{path}: this file holds a vocabulary and no weights: choose a whole model",
                path=str(path),
            )
        self.n_ctx = self._context_size()
        self._require_memory()
        weights_bytes = sum(tensor.nbytes for tensor in self.header.tensors)

        def report(fraction: float) -> None:
            if on_progress is not None:
                elapsed = time.monotonic() - started
                on_progress(LoadProgress(round(fraction * weights_bytes), weights_bytes, elapsed))

        self._lock = threading.Lock()
        self._active: Completion | None = None
        self._model: _native.Model | None = _native.Model(
            os.fsencode(path),
            _native.ModelParams(gpu_layers=self.config.gpu_layers, use_mmap=self.config.use_mmap),
            report,
        )
        self.threads = self.config.threads or read_cpu().threads
        self._session: _native.Session | None = _native.Session(self._model, self._session_params())
        self.load_ms = (time.monotonic() - started) * 1e3

    def _session_params(self) -> _native.SessionParams:
        config, hooks = self.config, self.config.hooks.enabled
        return _native.SessionParams(
            n_ctx=self.n_ctx,
            chunk_size=config.chunk_size,
            threads=self.threads,
            kv_type=config.kv_type,
            rope="rope" in hooks,
            paged="pages" in hooks,
            attention="attention" in hooks,
            page_size=config.page_size,
            prefix_cache=config.prefix_cache,
        )

    def _context_size(self) -> int:
        n_ctx_train = Hyperparameters(self.header).integer("context_length")
        if self.config.n_ctx > n_ctx_train:
            raise UsageError(
                f"a context of {self.config.n_ctx} tokens is more than the {n_ctx_train} "
                f"that this model was trained for: choose at most {n_ctx_train} "
                "(-c/--ctx-size, n_ctx in Python)"
            )
        return self.config.n_ctx or min(n_ctx_train, DEFAULT_MAX_CTX)

    def _require_memory(self) -> None:
        """Asked before anything is loaded: the kernel would kill the process, not refuse."""
        needed = kv_bytes(self.header, self.n_ctx, self.config.kv_type)
        available = read_memory().available
        if needed > available:
            raise OrinError(
                f"the KV cache of {self.n_ctx} tokens needs {size_text(needed)}, "
                f"{size_text(available)} is available: choose a smaller context "
                "(-c/--ctx-size, n_ctx in Python)"
            )

    @property
    def model(self) -> _native.Model:
        """The native model. Raises OrinError when the engine is closed."""
        if self._model is None:
            raise OrinError("this engine is closed: make a new one")
        return self._model

    @property
    def session(self) -> _native.Session:
        """The native session, for measurements and tests; not guarded against completions.

        Raises OrinError when the engine is closed.
        """
        if self._session is None:
            raise OrinError("this engine is closed: make a new one")
        return self._session

    # Tokens and text

    @property
    def n_vocab(self) -> int:
        """Tokens of the vocabulary."""
        return self.model.n_vocab

    @property
    def bos_id(self) -> int:
        """The id put before a text, or -1 where the model has none."""
        return self.model.bos

    @property
    def eos_id(self) -> int:
        """The id that ends a text, or -1 where the model has none."""
        return self.model.eos

    @property
    def bos_token(self) -> str:
        """The bos token as it is written in text, or ""."""
        return self._text_of(self.bos_id)

    @property
    def eos_token(self) -> str:
        """The eos token as it is written in text, or ""."""
        return self._text_of(self.eos_id)

    @property
    def add_bos(self) -> bool:
        """Whether `tokenize(add_special=True)` begins with the bos token."""
        return self.model.add_bos

    @cached_property
    def eog_ids(self) -> frozenset[int]:
        """Every token that ends an answer."""
        return frozenset(self.model.eog_tokens())

    @cached_property
    def special_tokens(self) -> dict[str, int]:
        """Control and user-defined tokens by the text they are written as."""
        return {
            text.decode("utf-8", "replace"): token
            for text, token in self.model.special_tokens().items()
        }

    @property
    def chat_template(self) -> str | None:
        """The Jinja source that the file brings for chats, if it does."""
        template = self.header.metadata.get("tokenizer.chat_template")
        return template if isinstance(template, str) else None

    def tokenize(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        """Token ids of a text.

        Args:
            text: UTF-8 when given as bytes; NULs are allowed.
            add_special: begin with bos (and end with eos) where the model asks for it.
            parse_special: read control tokens written in the text as those tokens.

        Raises:
            OrinError: the text is longer than 64 MiB, or its bytes are no text.
        """
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        return self.model.tokenize(data, add_special=add_special, parse_special=parse_special)

    def token_bytes(self, token: int, *, special: bool = False) -> bytes:
        """The bytes that one token stands for; a control token gives b"" unless `special`.

        Raises OrinError for an id outside the vocabulary, as `detokenize` does.
        """
        return self.model.token_bytes(token, special=special)

    def detokenize(self, tokens: Iterable[int], *, special: bool = False) -> bytes:
        """The bytes that the tokens stand for together."""
        return self.model.detokenize(list(tokens), special=special)

    def _text_of(self, token: int) -> str:
        return "" if token < 0 else self.token_bytes(token, special=True).decode("utf-8", "replace")

    # Work

    def complete(self, request: Request) -> Completion:
        """Start a completion: an iterator over chunks of text. The first computes the prompt."""
        from orin_llm.engine.completion import Completion

        return Completion(self, request)

    def forget(self) -> None:
        """Empty the KV cache: the next prompt is computed from its first token."""
        with self._lock:
            self.session.forget()
            self._active = None

    @property
    def backend(self) -> dict[str, object]:
        """Where the work runs and which of our hooks are on, for machine-readable output.

        A hook that was asked for and does not exist for the device is `unavailable`.
        """
        device = self.model.device
        available = {"rope"} if device == "cpu" else set()
        if self.session.kv_counters() is not None:
            available |= {"pages", "attention"}
        asked = self.config.hooks.enabled

        def state(name: str) -> str:
            if name not in asked:
                return "off"
            return "on" if name in available else "unavailable"

        return {"device": device, "hooks": {name: state(name) for name in HOOK_NAMES}}

    def close(self) -> None:
        """Free the model, after a running step. Completions that go on end with an error."""
        with self._lock:
            self._session = None
            self._model = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
