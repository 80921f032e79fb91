"""Whether the hooks leave a model as good as it was: perplexity of real text, hooks on and off."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from gpu_check.steps import Context, Found, default_model, python

_TYPE = "Q4_K_M"
_ON = "-sampling"  # all that there are: where tokens are drawn on the GPU logits stay there


def perplexity(shape: str, context: Context) -> Found:
    """The step: the default model, widened and quantized anew, where it is here.

    The synthetic model's random weights make a perplexity that says nothing but whether all runs.
    """
    source = default_model() if context.on_gpu else None
    model = context.model(shape) if source is None else _quantized(source, context)

    def losses(hooks: str) -> Any:
        arguments = (str(model), hooks, context.threads, str(context.sizes.windows))
        command = python("gpu_check.perplexity_child", *arguments)
        return json.loads(context.need(command, hooks).out)

    on, off = losses(_ON), losses("none")
    return {"model": model.name, "tokens": on["tokens"], **compare(on["losses"], off["losses"])}


def compare(on: Sequence[float], off: Sequence[float]) -> Found:
    """Of the mean losses of the same windows.

    difference: of the two perplexities, relative to that without hooks. deviation: its standard
    deviation, from how the windows differ.
    """
    apart = [a - b for a, b in zip(on, off, strict=True)]
    return {
        "on": math.exp(mean(on)),
        "off": math.exp(mean(off)),
        "difference": math.expm1(mean(apart)),
        "deviation": stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else None,
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
