"""Collecting importance matrices in tests: models, windows of tokens, and what comes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from orin_llm import _native
from orin_llm.engine.config import EngineConfig, Hooks
from orin_llm.engine.loaded_model import LoadedModel, read_model_header

N_CTX = 48
Sums = dict[str, tuple[Any, Any]]


def open_model(path: Path) -> LoadedModel:
    config = EngineConfig(gpu_layers=0, hooks=Hooks.none())
    return LoadedModel(path, read_model_header(path), config, None)


def text_windows(n: int, n_ctx: int = N_CTX, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(3, 300, (n, n_ctx)).astype(np.int32)


def collected(model: LoadedModel, windows: Any, *, output: bool = False, threads: int = 1) -> Sums:
    collector = _native.ImatrixCollector(
        model.model, n_ctx=windows.shape[1], threads=threads, process_output=output
    )
    for window in windows:
        collector.add_window(window)
    return collector.entries()
