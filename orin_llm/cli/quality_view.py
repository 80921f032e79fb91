"""What `perplexity` and `compare` print."""

from __future__ import annotations

import sys
from typing import Any

from orin_llm.cli.paragraphs import print_paragraph
from orin_llm.cli.render import tolerate_narrow_encoding
from orin_llm.quality.estimates import Estimate
from orin_llm.quality.perplexity import Perplexity
from orin_llm.quality.texts import Corpus
from orin_llm.quality.window_logits import WindowLogits
from orin_llm.quality.windows import Windows

_LABEL_CELLS = 14


def perplexity_json(
    found: Perplexity, model: WindowLogits, windows: Windows, corpus: Corpus, *, one_by_one: bool
) -> dict[str, Any]:
    """All of it, as plain values."""
    ppl, nll = found.ppl, found.nll
    n_tokens = windows.tokens.size
    return {
        "model": str(model.loaded.model_path),
        **computed(model, one_by_one=one_by_one),
        "text": {"name": corpus.name, "sha256": corpus.sha256},
        **window_sizes(windows),
        "ppl": ppl.value,
        "ppl_uncertainty": ppl.uncertainty,
        "nll": nll.value,
        "nll_uncertainty": nll.uncertainty,
        "window_ppl": found.window_ppls,
        "elapsed_ms": found.elapsed_ms,
        "tokens_per_s": 1e3 * n_tokens / found.elapsed_ms,
        "backend": model.backend,
    }


def computed(model: WindowLogits, *, one_by_one: bool) -> dict[str, Any]:
    """How it was, in so far as that changes the numbers."""
    return {
        "kv_type": model.config.kv_type,
        "chunk_size": model.config.chunk_size,
        "steps": "decode" if one_by_one else "prompt",
    }


def window_sizes(windows: Windows) -> dict[str, int]:
    """How the text was cut."""
    return {
        "window_tokens": windows.window_tokens,
        "windows": len(windows),
        "scored_tokens": len(windows) * windows.scored_per_window,
    }


def print_perplexity(said: dict[str, Any]) -> None:
    """For people."""
    tolerate_narrow_encoding(sys.stdout)
    rows = [
        ("model", said["model"]),
        ("KV cache", said["kv_type"]),
        ("text", _text(said)),
        ("perplexity", _estimate(Estimate(said["ppl"], said["ppl_uncertainty"]))),
    ]
    for label, text in rows:
        print_paragraph(text, label, _LABEL_CELLS)


def _text(said: dict[str, Any]) -> str:
    return (
        f"{said['text']['name']}: {said['windows']} windows of {said['window_tokens']} tokens, "
        f"{said['scored_tokens']} tokens count"
    )


def _estimate(found: Estimate) -> str:
    return f"{found.value:.4f} ± {found.uncertainty:.4f}"
