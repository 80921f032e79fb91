"""Whether the GPU writes what the CPU writes: greedy text, token by token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from checking.checkout import default_model, python
from checking.steps import Found
from gpu_check.steps import Context

TIE = 1e-2  # the likeliest two logits so near: either may be the first
_NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
_PROMPTS = (
    "The capital of France is",
    "Once upon a time there was a small robot that",
    "def fibonacci(n):\n    ",
    "The three most important rules of a kitchen are",
    "In 1969 the first people who walked on the Moon",
)


def greedy(shape: str, context: Context) -> Found:
    """The step: the default model where it is here, else the synthetic one.

    First with weights of f16, which the CPU has as F32: where weights are quantized, so are
    activations, and a rounding that falls the other way moves logits by more than what tells an
    error. The same as it is comes after, and the texts of the GPU without hooks: what rounding does
    by itself.
    """
    from checking.float_model import write_floats  # needs what the build step makes

    model = default_model() if context.on_gpu else None
    if model is None:
        model = context.model(shape)
        return _beside_cpu(model, model, context)
    halves, floats = (
        context.work / "models" / f"{model.stem}.{matrices}.gguf" for matrices in ("F16", "F32")
    )
    halves.parent.mkdir(parents=True, exist_ok=True)
    write_floats(model, halves, "F16")
    write_floats(model, floats, "F32")
    found = {
        **_beside_cpu(halves, floats, context),
        "quantized": _beside_cpu(model, model, context),
    }
    halves.unlink()
    floats.unlink()
    return found


def _beside_cpu(model: Path, cpu_model: Path, context: Context) -> Found:
    asked = {
        "prompts": _PROMPTS, "tokens": context.sizes.greedy, "threads": int(context.threads),
    }  # fmt: skip

    def texts(name: str, path: Path, *, hooks: str = "all", on_cpu: bool = False) -> Any:
        request = json.dumps({**asked, "model": str(path), "hooks": hooks, "logprobs": on_cpu})
        command = python("checking.greedy_child", request)
        environ = _NO_GPU if on_cpu else None
        return json.loads(context.need(command, f"{name}.{path.name}", environ).out)

    cpu = texts("cpu", cpu_model, on_cpu=True)
    stock = compare(cpu, texts("stock", model, hooks="none"))
    return {"model": model.name, **compare(cpu, texts("gpu", model)), "stock": stock}


def compare(cpu: dict[str, Any], gpu: dict[str, Any]) -> Found:
    """How far the texts agree.

    Args:
        cpu: `texts`: `ids` and, of each place, the `logprobs` of the two likeliest tokens.
        gpu: the same without the latter.
    """
    differences = []
    for prompt, (one, other) in enumerate(zip(cpu["texts"], gpu["texts"], strict=True)):
        pairs = zip(one["ids"], other["ids"], strict=True)
        place = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
        if place is not None:
            likeliest, second = one["logprobs"][place]
            gap = likeliest - second
            differences.append({"prompt": prompt, "place": place, "gap": gap, "tie": gap <= TIE})
    return {
        "prompts": len(cpu["texts"]),
        "tokens": len(cpu["texts"][0]["ids"]),
        "equal": len(cpu["texts"]) - len(differences),
        "differences": differences,
        "agrees": all(difference["tie"] for difference in differences),
        "devices": [cpu["device"], gpu["device"]],
    }
