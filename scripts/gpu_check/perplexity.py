"""Whether the hooks leave a model as good as it was: perplexity of real text, hooks on and off."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checking.checkout import ROOT, default_model, python
from checking.steps import Found
from gpu_check.steps import Context

_TYPE = "Q4_K_M"
_ON = "-sampling"  # all that there are: where tokens are drawn on the GPU logits stay there


def perplexity(shape: str, context: Context) -> Found:
    """The step: the default model, widened and quantized anew, where it is here.

    The synthetic model's random weights make a perplexity that says nothing but whether all runs.
    """
    source = default_model() if context.on_gpu else None
    model = context.model(shape) if source is None else _quantized(source, context)

    command = python(
        "orin_llm.cli",
        *("compare", str(model), "--hooks", _ON, "--ref-hooks", "none"),
        *("--decode", "--ctx-size", "256", "--windows", str(context.sizes.windows)),
        *("--text", str(ROOT / "docs"), "--threads", context.threads, "--json", "-q"),
    )
    return {"model": model.name, **figures(json.loads(context.need(command).out))}


def figures(said: Mapping[str, Any]) -> Found:
    """Of what `orin-llm compare` says.

    difference: of the two perplexities, relative to that without hooks. deviation: its standard
    deviation, from how the tokens differ.
    """
    return {
        "tokens": said["scored_tokens"],
        "on": said["model"]["ppl"],
        "off": said["reference"]["ppl"],
        "difference": said["ppl_ratio"] - 1,
        "deviation": said["ppl_ratio_uncertainty"],
        "kl_divergence": said["kl_divergence"]["mean"],
    }


def _quantized(source: Path, context: Context) -> Path:
    """Rows of whole blocks, and a type that real files have: made once."""
    folder = context.work / "models"
    out = folder / f"{source.stem}.wide.{_TYPE}.gguf"
    if not out.exists():
        folder.mkdir(parents=True, exist_ok=True)
        wide = folder / f"{source.stem}.wide.gguf"
        context.need(
            python("orin_llm.cli", "models", "widen", "--force", "-q", str(source), str(wide)),
            "widen",
        )
        context.need(
            python(
                "orin_llm.cli", "quantize", "--allow-requantize", "-q", str(wide), str(out), _TYPE
            ),
            "quantize",
        )
        wide.unlink()
    return out
