"""Whether the GPU writes what the CPU writes: greedy text, token by token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_check.steps import Context, Found, default_model, python

TIE = 1e-2  # the likeliest two logits so near: either may be the first
_NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def greedy(shape: str, context: Context) -> Found:
    """The step: the default model where it is here, else the synthetic one.

    First with all weights as F32: where they are quantized, so are activations, and a rounding that
    falls the other way moves logits by more than what tells an error. The same as it is comes
    after, and the texts of the GPU without hooks: what rounding does by itself.
    """
    from gpu_check.float_model import write_float32  # needs what the build step makes

    model = default_model() if context.on_gpu else None
    if model is None:
        return _beside_cpu(context.model(shape), context)
    as_floats = context.work / "models" / f"{model.stem}.F32.gguf"
    as_floats.parent.mkdir(parents=True, exist_ok=True)
    write_float32(model, as_floats)
    found = {**_beside_cpu(as_floats, context), "quantized": _beside_cpu(model, context)}
    as_floats.unlink()
    return found


def _beside_cpu(model: Path, context: Context) -> Found:
    def texts(name: str, *how: str, environ: dict[str, str] | None = None) -> Any:
        arguments = (str(model), str(context.sizes.greedy), context.threads, *how)
        command = python("gpu_check.greedy_child", *arguments)
        return json.loads(context.need(command, f"{name}.{model.name}", environ).out)

    cpu = texts("cpu", "all", "gaps", environ=_NO_GPU)
    stock = compare(cpu, texts("stock", "none"))
    return {"model": model.name, **compare(cpu, texts("gpu", "all")), "stock": stock}


def compare(cpu: dict[str, Any], gpu: dict[str, Any]) -> Found:
    """How far the texts agree.

    Args:
        cpu: `texts`: `ids` and, at each place, the distance of the likeliest two logits (`gaps`).
        gpu: the same without the distances.
    """
    differences = []
    for prompt, (one, other) in enumerate(zip(cpu["texts"], gpu["texts"], strict=True)):
        pairs = zip(one["ids"], other["ids"], strict=True)
        place = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
        if place is not None:
            gap = one["gaps"][place]
            differences.append({"prompt": prompt, "place": place, "gap": gap, "tie": gap <= TIE})
    return {
        "prompts": len(cpu["texts"]),
        "tokens": len(cpu["texts"][0]["ids"]),
        "equal": len(cpu["texts"]) - len(differences),
        "differences": differences,
        "agrees": all(difference["tie"] for difference in differences),
        "devices": [cpu["device"], gpu["device"]],
    }
