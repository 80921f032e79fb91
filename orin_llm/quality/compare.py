"""Two models on one text, or one in two ways: KV types, hooks, quantizations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orin_llm import _native
from orin_llm.engine.config import EngineConfig
from orin_llm.errors import UsageError
from orin_llm.quality.base_logits import BaseLogits
from orin_llm.quality.comparison import Comparison
from orin_llm.quality.perplexity import require_finite
from orin_llm.quality.window_logits import BLOCK_ROWS, WindowLogits
from orin_llm.quality.windows import Windows, bos_of


@dataclass(frozen=True)
class Side:
    """A model and how it is computed; `config.n_ctx` is the length of a window."""

    path: Path
    config: EngineConfig


@dataclass(frozen=True)
class Compared:
    """A comparison, and what was compared.

    Attributes:
        model, reference: what they are and how they compute; see `describe` of each.
        elapsed_ms: of all windows; loading is not in it.
    """

    comparison: Comparison
    windows: Windows
    model: dict[str, Any]
    reference: dict[str, Any]
    elapsed_ms: float


Opener = Callable[[Side, WindowLogits | None], WindowLogits]


def open_side(side: Side, beside: WindowLogits | None = None) -> WindowLogits:
    """Load it, or share the weights of `beside`."""
    return WindowLogits(side.path, side.config, beside=beside)


def compare_models(
    reference: Side | BaseLogits,
    model: Side,
    text: str | None,
    *,
    most: int | None = None,
    one_by_one: bool = False,
    on_window: Callable[[int, int], None] = lambda done, total: None,
    opener: Opener = open_side,
) -> Compared:
    """All that a bound of quality may be put on, in one call.

    Both models are in memory at once, once where they are the same file; only some rows of logits
    are.

    Args:
        text: what both foretell; None where the reference brings the tokens (`BaseLogits`).
        most: windows, at most.
        one_by_one: see `WindowLogits.blocks`.
        on_window: called first and after each window: how many are done, of how many.
        opener: loads a model.

    Raises:
        ModelFileError: a model is damaged, of another kind or not supported.
        UsageError: the vocabularies differ, or the text is shorter than a window.
        OrinError: there is not enough memory, a step failed, or logits are no numbers.
    """
    with ExitStack() as stack:
        if isinstance(reference, BaseLogits):
            opened = stack.enter_context(opener(model, None))
            bos = bos_of(opened.loaded)
            windows = reference.windows(opened.loaded.n_vocab, bos, most)
            source: WindowLogits | BaseLogits = reference
        else:
            source = stack.enter_context(opener(reference, None))
            opened = stack.enter_context(opener(model, source))
            assert text is not None  # only a file brings its own
            windows = _windows_of_both(source, opened, text, most)
        started = time.monotonic()
        found = compare(source, opened, windows, one_by_one=one_by_one, on_window=on_window)
        elapsed_ms = (time.monotonic() - started) * 1e3
        return Compared(found, windows, opened.describe(), source.describe(), elapsed_ms)


def compare(
    reference: WindowLogits | BaseLogits,
    model: WindowLogits,
    windows: Windows,
    *,
    one_by_one: bool = False,
    on_window: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """The same of models that are open; see `compare_models`."""
    parts: list[_native.RowDifferences] = []
    on_window(0, len(windows))
    for i, of_window in enumerate(_differences(reference, model, windows, one_by_one)):
        for part in of_window:
            for values in (part["nll"], part["reference_nll"], part["kl_divergence"]):
                require_finite(values, i)
            parts.append(part)
        on_window(i + 1, len(windows))
    return Comparison(
        np.concatenate([part["nll"] for part in parts]),
        np.concatenate([part["reference_nll"] for part in parts]),
        np.concatenate([part["kl_divergence"] for part in parts]),
        np.concatenate([part["same_top"] for part in parts]),
        np.concatenate([part["max_logit"] for part in parts]),
    )


def _windows_of_both(
    reference: WindowLogits, model: WindowLogits, text: str, most: int | None
) -> Windows:
    """The model's windows. Raises UsageError where the reference has other tokens."""
    n_old, n_new = reference.loaded.n_vocab, model.loaded.n_vocab
    windows = Windows.of_text(model.loaded, text, model.config.n_ctx, most)
    if n_old == n_new:
        same = Windows.of_text(reference.loaded, text, model.config.n_ctx, most)
        if np.array_equal(windows.tokens, same.tokens):
            return windows
    raise UsageError(
        f"{reference.loaded.model_path} ({n_old} tokens) and {model.loaded.model_path} ({n_new}) "
        "cut the text into other tokens: only models with one vocabulary can be compared"
    )


def _differences(
    reference: WindowLogits | BaseLogits, model: WindowLogits, windows: Windows, one_by_one: bool
) -> Iterator[Iterator[_native.RowDifferences]]:
    """For each window, those of some rows at a time."""
    n_threads = model.threads
    if isinstance(reference, BaseLogits):
        for window, rows in zip(windows, reference.rows(BLOCK_ROWS), strict=False):
            blocks = model.blocks(window, one_by_one=one_by_one)
            yield (
                _native.compare_encoded(old, new, targets, n_threads=n_threads)
                for old, (new, targets) in zip(rows, blocks, strict=True)
            )
        return
    old_windows = Windows(windows.tokens, bos_of(reference.loaded))
    for old_window, window in zip(old_windows, windows, strict=True):
        old_blocks = reference.blocks(old_window, one_by_one=one_by_one)
        blocks = model.blocks(window, one_by_one=one_by_one)
        yield (
            _native.compare_rows(old, new, targets, n_threads=n_threads)
            for (old, _), (new, targets) in zip(old_blocks, blocks, strict=True)
        )
