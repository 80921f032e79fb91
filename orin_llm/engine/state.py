"""Saving what the KV cache holds of one sequence, and putting it back.

Keys and values are kept by position, not by page: a file fits engines of any page size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from orin_llm.engine.config import EngineConfig
from orin_llm.engine.fingerprint import model_fingerprint
from orin_llm.engine.loaded_model import file_identity
from orin_llm.engine.state_file import MAX_MODEL_NAME, StateFile, StateHead, write_state
from orin_llm.errors import StateFileError
from orin_llm.gguf.header import Header
from orin_llm.gguf.kv_layers import Hyperparameters

# Tokens copied at once, a multiple of every page size: other requests' steps wait for no more.
SLICE_TOKENS = 256
_CONTEXT_STEP = 256  # tokens: llama.cpp rounds contexts up to a multiple


class KvHolder(Protocol):
    """What is needed of an engine."""

    @property
    def config(self) -> EngineConfig: ...
    @property
    def model_path(self) -> Path: ...
    @property
    def model_file(self) -> tuple[int, int, int, int]: ...
    @property
    def header(self) -> Header: ...
    @property
    def n_ctx(self) -> int: ...
    @property
    def n_vocab(self) -> int: ...
    @property
    def kv_row_bytes(self) -> int: ...
    def read_kv(self, tokens: Sequence[int], first: int, n: int) -> bytes: ...
    def write_kv(self, tokens: Sequence[int], first: int, data: bytes) -> int: ...


def save_state(engine: KvHolder, tokens: Sequence[int], path: str | Path) -> int:
    """Write what is cached of `tokens` to a file: whole pages, from the first token on.

    A file at `path` is replaced, once the new one is complete. Other requests go on meanwhile.

    Returns:
        How many tokens were saved. At 0 nothing is cached, and no file is written.

    Raises:
        StateFileError: the engine keeps no pages that could be found again.
        OrinError: the file cannot be written, or there is no room for it.
    """
    path = Path(path)
    _require_prefix_cache(engine, path)
    tokens = list(tokens)
    slices = _cached_slices(engine, tokens)
    first = next(slices, b"")
    if not first:
        return 0

    def rows() -> Iterator[bytes]:
        yield first
        yield from slices

    return write_state(path, _head_of(engine), tokens, rows()).n_tokens


def load_state(engine: KvHolder, path: str | Path) -> tuple[int, ...]:
    """Put a saved state into the prefix cache: requests that begin with its tokens find it there.

    Nothing is put there before the whole file is checked. A file from someone else is to be trusted
    as much as an answer: what its keys and values make the model say cannot be checked.

    Returns:
        The tokens that are cached now: those of the file in whole pages, fewer where there is no
        memory for all.

    Raises:
        StateFileError: the file is damaged, no state file, or of another model, KV type or version;
            it has more tokens than the context; or the engine keeps no pages to find again.
    """
    path = Path(path)
    _require_prefix_cache(engine, path)
    with StateFile(path) as file:
        _require_fit(engine, file.head, path)
        tokens = file.checked_tokens()
        wrong = [token for token in tokens if not 0 <= token < engine.n_vocab]
        if wrong:
            raise StateFileError(
                f"{path} names token {wrong[0]}, outside the vocabulary of {engine.n_vocab} tokens"
            )
        n_cached = 0
        for data in file.slices(SLICE_TOKENS):
            end = n_cached + len(data) // file.head.row_bytes
            n_cached = engine.write_kv(tokens[:end], n_cached, data)
            if n_cached < end:
                break
    return tuple(tokens[:n_cached])


def _cached_slices(engine: KvHolder, tokens: list[int]) -> Iterator[bytes]:
    """The cached rows in order, until there are no more."""
    whole = SLICE_TOKENS * engine.kv_row_bytes
    for first in range(0, len(tokens), SLICE_TOKENS):
        data = engine.read_kv(tokens[: first + SLICE_TOKENS], first, SLICE_TOKENS)
        if data:
            yield data
        if len(data) < whole:
            return


def _head_of(engine: KvHolder) -> StateHead:
    if file_identity(engine.model_path) != engine.model_file:
        raise StateFileError(
            f"{engine.model_path} is another file than the one that was loaded: start again with it"
        )
    name = engine.header.metadata.get("general.name")
    return StateHead(
        model=model_fingerprint(engine.model_path),
        model_name=(name if isinstance(name, str) else engine.model_path.name)[:MAX_MODEL_NAME],
        kv_type=engine.config.kv_type,
        long_context=_uses_long_factors(engine),
        row_bytes=engine.kv_row_bytes,
        n_tokens=0,
    )


def _uses_long_factors(engine: KvHolder) -> bool:
    """Whether keys are rotated by the second of two sets of RoPE factors (llama-model.cpp)."""
    has_two = any(tensor.name == "rope_factors_long.weight" for tensor in engine.header.tensors)
    padded = -(-engine.n_ctx // _CONTEXT_STEP) * _CONTEXT_STEP
    return has_two and padded > _original_context(engine)


def _original_context(engine: KvHolder) -> int:
    """Tokens up to which a model with two sets of RoPE factors takes the first."""
    return Hyperparameters(engine.header).integer("rope.scaling.original_context_length")


def _require_prefix_cache(engine: KvHolder, path: Path) -> None:
    if not engine.kv_row_bytes:
        raise StateFileError(
            f"{path}: this engine keeps no pages of keys and values that could be saved or "
            "restored: the model is of a kind that runs without, or --hooks switches pages off"
        )
    if not engine.config.prefix_cache:
        raise StateFileError(
            f"{path}: states are kept in the prefix cache, which is off: leave out "
            "--no-prefix-cache (prefix_cache=False in Python)"
        )


def _require_fit(engine: KvHolder, head: StateHead, path: Path) -> None:
    """Refuse what does not belong to the engine; the cheapest look comes first."""
    ours = engine.config.kv_type
    if head.n_tokens > engine.n_ctx:
        raise StateFileError(
            f"{path} holds {head.n_tokens} tokens, the context {engine.n_ctx}: choose a larger "
            "context (-c/--ctx-size, n_ctx in Python)"
        )
    if head.kv_type != ours:
        raise StateFileError(
            f"{path} holds a KV cache of type {head.kv_type}, this one is of type {ours}: choose "
            "that type (--kv-type, kv_type in Python)"
        )
    mine = _head_of(engine)
    if head.model != mine.model or head.row_bytes != mine.row_bytes:
        raise StateFileError(
            f"{path} was saved from another model ({head.model_name!r}; here it is "
            f"{mine.model_name!r}), whose keys and values mean nothing to this one"
        )
    if head.long_context != mine.long_context:
        raise StateFileError(
            f"{path} was saved with a context of {'more than' if head.long_context else 'at most'} "
            f"{_original_context(engine)} tokens, where this model's keys are others: choose such "
            "a context (-c/--ctx-size, n_ctx in Python)"
        )
