"""A model that is asked for the logits of many positions, by the path that answers take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orin_llm import _native
from orin_llm.closeable import Closeable
from orin_llm.engine.backend import describe_backend
from orin_llm.engine.config import EngineConfig, Hooks
from orin_llm.engine.kv_memory import KvRoom
from orin_llm.engine.loaded_model import (
    LoadedModel,
    file_identity,
    read_model_header,
    table_on_gpu,
)
from orin_llm.engine.native_params import native_params, thread_count
from orin_llm.engine.progress import LoadProgress
from orin_llm.errors import OrinError
from orin_llm.gguf.kv_types import require_kv_types
from orin_llm.quality.windows import Tokens, Window

BLOCK_ROWS = 64  # of logits that are looked at together: 32 MiB for a vocabulary of 128k

Logits = NDArray[np.float32]


class WindowLogits(Closeable):
    """A model on pages, KV types and hooks as an engine has them, for one window at a time.

    Logits come to the host, so tokens are not drawn on a GPU: of the hooks, `sampling` is off.
    What computes is the caller's thread, on all its cores: `cpus` is an engine's own.

    Attributes:
        config: as the windows are computed; its n_ctx is the length of a window.
        loaded: the weights, which another `WindowLogits` may share.
    """

    def __init__(
        self,
        path: str | Path,
        config: EngineConfig,
        on_progress: Callable[[LoadProgress], None] | None = None,
        beside: WindowLogits | None = None,
    ) -> None:
        """Load a model, or take the weights from `beside` where they are the same.

        Raises:
            ModelFileError: the file is damaged, of another kind or not supported.
            UsageError: the configuration does not fit the model.
            OrinError: there is not enough memory.
        """
        self.config = replace(
            config,
            max_batch=1,
            cpus="",
            kv_memory=None,
            prefix_cache=False,
            publish=False,
            hooks=Hooks(config.hooks.enabled - {"sampling"}),
        )
        header = read_model_header(path)
        require_kv_types(header, self.config.kv_types)
        room = KvRoom.of(header, self.config)
        self.threads = thread_count(self.config)
        same = beside if beside and _has_same_weights(beside, Path(path), self.config) else None
        self.loaded: LoadedModel = (
            same.loaded if same else LoadedModel(path, header, self.config, on_progress)
        )
        most = min(self.config.chunk_size, room.n_ctx - room.n_ctx // 2)
        params = native_params(self.config, room, prompt_outputs=most)
        self._runner: _native.WindowRunner | None = _native.WindowRunner(self.model, params)

    @property
    def model(self) -> _native.Model:
        """The native model."""
        return self.loaded.model

    @property
    def runner(self) -> _native.WindowRunner:
        """What computes. Raises OrinError when it is closed."""
        if self._runner is None:
            raise OrinError("this model is closed: open it again")
        return self._runner

    @property
    def is_paged(self) -> bool:
        """Whether the KV cache is in pages."""
        return self.runner.is_paged

    def describe(self) -> dict[str, Any]:
        """The model and how it computes, as plain values."""
        return {
            "model": str(self.loaded.model_path),
            "kv_type": self.config.kv_type,
            "chunk_size": self.config.chunk_size,
            "backend": describe_backend(self),
        }

    def blocks(
        self, window: Window, *, one_by_one: bool = False
    ) -> Iterator[tuple[Logits, Tokens]]:
        """The logits of each position from `window.first` on, and the token that follows it.

        Some at a time: [n, n_vocab] and [n], n at most BLOCK_ROWS.

        one_by_one: these positions are computed one in a step, as those of an answer are, and not
        as a prompt's.

        Raises OrinError: a step failed.
        """
        runner = self.runner
        runner.begin(window.inputs, first=window.first, one_by_one=one_by_one)
        for at in range(0, len(window.targets), BLOCK_ROWS):
            targets = window.targets[at : at + BLOCK_ROWS]
            yield runner.next_rows(len(targets)), targets

    def close(self) -> None:
        """Free the contexts, and the weights if nobody shares them."""
        self._runner = None


def _has_same_weights(other: WindowLogits, path: Path, config: EngineConfig) -> bool:
    """Whether the weights of `other` would be loaded the same way for `config`."""

    def where_weights_go(config: EngineConfig) -> tuple[object, ...]:
        return config.gpu_layers, config.use_mmap, table_on_gpu(other.loaded.header, config)

    is_same_file = other.loaded.model_file == file_identity(path)
    return is_same_file and where_weights_go(config) == where_weights_go(other.config)
