"""Perplexity: how well a model foretells a text, token by token."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from orin_llm import _native
from orin_llm.errors import OrinError
from orin_llm.quality.base_logits import BaseLogitsWriter
from orin_llm.quality.estimates import Estimate, Values, mean
from orin_llm.quality.window_logits import WindowLogits
from orin_llm.quality.windows import Windows


@dataclass(frozen=True)
class Perplexity:
    """What a model made of a text.

    Attributes:
        nlls: [n_windows, scored in each]: -log(probability) of each token that counts.
        elapsed_ms: of all windows; loading is not in it.
    """

    nlls: Values
    elapsed_ms: float

    @property
    def nll(self) -> Estimate:
        """The mean over all tokens."""
        return mean(self.nlls.ravel())

    @property
    def ppl(self) -> Estimate:
        """exp(nll). Its uncertainty is what other text of the kind would change it by."""
        return self.nll.exp()

    @property
    def window_ppls(self) -> list[float]:
        """The perplexity of each window alone."""
        return [math.exp(value) for value in self.nlls.mean(axis=1)]


def perplexity(
    model: WindowLogits,
    windows: Windows,
    *,
    one_by_one: bool = False,
    save: BaseLogitsWriter | None = None,
    on_window: Callable[[int], None] = lambda done: None,
) -> Perplexity:
    """The model's perplexity on these windows.

    Args:
        one_by_one: see `WindowLogits.blocks`.
        save: gets the log-probabilities of all tokens at each position that counts.
        on_window: called after each window with how many are done.

    Raises:
        OrinError: a step failed, or logits are no numbers.
    """
    started = time.monotonic()
    nlls = np.empty((len(windows), windows.scored_per_window))
    for i, window in enumerate(windows):
        of_window = []
        for logits, targets in model.blocks(window, one_by_one=one_by_one):
            of_window.append(_native.token_nlls(logits, targets, n_threads=model.threads))
            if save is not None:
                save.add(_native.encode_rows(logits, n_threads=model.threads))
        nlls[i] = np.concatenate(of_window)
        require_finite(nlls[i], i)
        on_window(i + 1)
    return Perplexity(nlls, (time.monotonic() - started) * 1e3)


def require_finite(values: Values, window: int) -> None:
    """OrinError where a model holds a token for impossible that the text, or another model, has."""
    if not np.isfinite(values).all():
        raise OrinError(
            f"in window {window + 1} a token of the text, or one that the reference expects, has "
            "the probability 0: there is no perplexity or divergence"
        )
