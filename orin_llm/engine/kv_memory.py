"""How much the KV cache may hold, as it is asked for and as whole pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orin_llm.errors import OrinError, UsageError
from orin_llm.gguf.footprint import DEFAULT_MAX_CTX, kv_bytes_per_token, weight_bytes
from orin_llm.gguf.header import Header
from orin_llm.gguf.kv_layers import Hyperparameters
from orin_llm.host.memory import read_memory
from orin_llm.host.units import size_text

if TYPE_CHECKING:
    from orin_llm.engine.config import EngineConfig

_CTX_FLAG = "(-c/--ctx-size, n_ctx in Python)"
_KV_FLAG = "(--kv-memory, kv_memory in Python)"
_LEAST_CTX = 16  # tokens

_UNITS = {
    **{"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
    **{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40},
}
_BY_LETTERS = {unit.lower(): n_bytes for unit, n_bytes in _UNITS.items()}
_SIZE = re.compile(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True)
class KvMemory:
    """A limit of the KV cache: of tokens, or of bytes."""

    tokens: int | None = None
    n_bytes: int | None = None

    @classmethod
    def parse(cls, text: str | int) -> KvMemory:
        """Read `32768` (tokens), or `512MiB`, `2GB` (bytes).

        Raises:
            UsageError: neither.
        """
        match = _SIZE.fullmatch(str(text))
        if match:
            number, unit = match.groups()
            if not unit and "." not in number and int(number) > 0:
                return cls(tokens=int(number))
            if unit.lower() in _BY_LETTERS and float(number) > 0:
                return cls(n_bytes=int(float(number) * _BY_LETTERS[unit.lower()]))
        raise UsageError(
            f"the KV memory (--kv-memory, kv_memory in Python) is {text!r}: expected a number of "
            f"tokens such as 32768, or of bytes with a unit: {', '.join(_UNITS)}"
        )

    def pages(self, page_size: int, token_bytes: int) -> int:
        """Whole pages within the limit: at least all tokens asked for, at most the bytes."""
        if self.tokens is not None:
            return -(-self.tokens // page_size)
        assert self.n_bytes is not None  # one of the two is set
        return self.n_bytes // max(1, page_size * token_bytes)


@dataclass(frozen=True)
class KvRoom:
    """The context of one sequence, the pages that all share, and what would make room for more."""

    n_ctx: int
    pages: int
    choice: str = f"context {_CTX_FLAG}"

    @classmethod
    def of(cls, header: Header, config: EngineConfig) -> KvRoom:
        """What a configuration comes to on this model, with the memory that is free now.

        Asked before anything is loaded: the kernel would kill the process, not refuse.

        Raises:
            UsageError: the context is longer than the model's, or than the KV memory holds.
            OrinError: there is not enough memory.
        """
        token_bytes = kv_bytes_per_token(header, config.kv_type)
        n_ctx_train = Hyperparameters(header).integer("context_length")
        if config.n_ctx > n_ctx_train:
            raise UsageError(
                f"a context of {config.n_ctx} tokens is more than the {n_ctx_train} "
                f"that this model was trained for: choose at most {n_ctx_train} {_CTX_FLAG}"
            )
        n_ctx = config.n_ctx or min(n_ctx_train, DEFAULT_MAX_CTX)
        available = _available_bytes(header, config)
        if config.kv_memory is None:
            free = max(0, available - weight_bytes(header))
            pages = _default_pages(n_ctx, config, free // 2 // max(1, token_bytes))
            _require(token_bytes * n_ctx, available, f"{n_ctx} tokens", f"context {_CTX_FLAG}")
            return cls(n_ctx, pages)
        pages = KvMemory.parse(config.kv_memory).pages(config.page_size, token_bytes)
        room = pages * config.page_size
        if room < config.n_ctx:
            raise UsageError(
                f"a KV memory of {config.kv_memory} holds {room} tokens, fewer than the context of "
                f"{config.n_ctx}: choose more {_KV_FLAG} or a smaller context {_CTX_FLAG}"
            )
        if room < _LEAST_CTX:
            page_bytes = token_bytes * config.page_size
            raise UsageError(
                f"a KV memory of {config.kv_memory} holds {room} tokens: choose {_LEAST_CTX} or "
                f"more {_KV_FLAG}; a page of {config.page_size} takes {size_text(page_bytes)} here"
            )
        _require(token_bytes * room, available, str(config.kv_memory), f"limit {_KV_FLAG}")
        if room < n_ctx:
            return cls(room, pages, f"KV memory {_KV_FLAG}")
        return cls(n_ctx, pages)


def wants_all_on_gpu(header: Header, config: EngineConfig) -> bool:
    """Whether a GPU, where there is one, is to have all layers, and so the KV cache."""
    n_layers = Hyperparameters(header).integer("block_count")
    return config.gpu_layers < 0 or config.gpu_layers > n_layers


def _available_bytes(header: Header, config: EngineConfig) -> int:
    """Free memory where weights and KV cache will be."""
    from orin_llm import _native

    system = read_memory().available
    gpu = _native.gpu_memory() if wants_all_on_gpu(header, config) else None
    if gpu is None:
        return system
    return min(gpu["free_bytes"], system) if gpu["is_integrated"] else gpu["free_bytes"]


def _default_pages(n_ctx: int, config: EngineConfig, most_tokens: int) -> int:
    """As much as max_batch full contexts take, within most_tokens; at least one of them."""
    pages_of_one = -(-n_ctx // config.page_size)
    most = most_tokens // config.page_size
    return max(pages_of_one, min(config.max_batch * pages_of_one, most))


def _require(needed: int, available: int, what: str, choice: str) -> None:
    if needed > available:
        raise OrinError(
            f"the KV cache of {what} needs {size_text(needed)}, {size_text(available)} is "
            f"available: choose a smaller {choice}"
        )
