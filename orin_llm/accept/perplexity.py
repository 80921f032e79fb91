"""Measures what quantizing cost: the model's perplexity over the reference's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from orin_llm.accept import figures
from orin_llm.accept.figures import Figures
from orin_llm.accept.plan import Plan
from orin_llm.engine.loaded_model import read_model_header
from orin_llm.errors import OrinError, UsageError
from orin_llm.models.describe import quant
from orin_llm.quality.base_logits import BaseLogits
from orin_llm.quality.compare import Opener, Side, compare_models
from orin_llm.quality.window_logits import WindowLogits

UNQUANTIZED = ("F32", "F16", "BF16")
NO_REFERENCE = (
    "nothing to compare with: name the unquantized model (--reference MODEL), or what "
    "`orin-llm perplexity MODEL --save-logits FILE` wrote of it (--logits FILE)"
)

TOO_LARGE = (
    "Where both models do not fit into memory, run the unquantized one before, elsewhere if need "
    "be: `orin-llm perplexity MODEL --save-logits FILE`, then --logits FILE"
)


def require_unquantized(reference: Path) -> None:
    """UsageError where a reference is itself quantized; ModelFileError where it is no model."""
    kind = quant(read_model_header(reference), reference.name)
    if kind not in UNQUANTIZED:
        raise UsageError(
            f"--reference {reference} is {kind}: what quantizing cost is told by a model of "
            f"{', '.join(UNQUANTIZED[:-1])} or {UNQUANTIZED[-1]}"
        )


def measure_perplexity(
    plan: Plan, opener: Opener, on_window: Callable[[int, int], None], raw: dict[str, Any]
) -> Figures:
    """Compare both on the text, window by window; what the figures are from goes into `raw`.

    PRECOND: the plan has a reference.

    Raises:
        UsageError: they cannot be loaded beside one another, the vocabularies differ, or the text
            is too short.
        OrinError: a step failed.
    """
    shape, reference = plan.shapes.perplexity, plan.reference
    assert reference is not None
    tokens = shape.window_tokens
    if isinstance(reference, BaseLogits):
        tokens = int(reference.tokens.shape[1])
    model = Side(plan.model, replace(plan.config, n_ctx=tokens))

    def open_both(side: Side, beside: WindowLogits | None) -> WindowLogits:
        try:
            return opener(side, beside)
        except OrinError as error:
            raise UsageError(f"{side.path.name} cannot be loaded: {error}. {TOO_LARGE}") from error

    found = compare_models(
        reference, model, plan.text, most=shape.windows, on_window=on_window, opener=open_both
    )
    comparison = found.comparison
    raw |= {
        "model": found.model,
        "reference": found.reference,
        "windows": len(found.windows),
        "window_tokens": found.windows.window_tokens,
        "nlls": comparison.nlls.tolist(),
        "reference_nlls": comparison.reference_nlls.tolist(),
        "kl_divergences": comparison.kl_divergences.tolist(),
    }
    return figures.perplexity(comparison)
