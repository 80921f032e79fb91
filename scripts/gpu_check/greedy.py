"""Whether the GPU writes what the CPU writes: greedy text, token by token."""

from __future__ import annotations

import json
from typing import Any

from gpu_check.steps import Context, Found, default_model, python

TIE = 1e-2  # the likeliest two logits so near: either may be the first
_NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def greedy(shape: str, context: Context) -> Found:
    """The step: the default model where it is here, else the synthetic one.

    The texts of the GPU without hooks are compared, too: what rounding does by itself.
    """
    model = default_model() or context.model(shape)

    def texts(name: str, *how: str, environ: dict[str, str] | None = None) -> Any:
        arguments = (str(model), str(context.sizes.greedy), context.threads, *how)
        command = python("gpu_check.greedy_child", *arguments)
        return json.loads(context.need(command, name, environ).out)

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
