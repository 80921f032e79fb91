"""Steps that take times: models of real shapes, our hooks and stock taking turns, copies."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from checking.checkout import python
from checking.command import Done
from checking.steps import Found, StepFailed
from gpu_check.figures import CUBLAS, OURS, PAGES, STOCK
from gpu_check.steps import SHAPES, Context
from orin_llm.models.shapes import SHAPES as MODEL_SHAPES

_PROBE = (
    "import json; from orin_llm.device.probes.cuda import probe_cuda;"
    " print(json.dumps(probe_cuda().to_json()))"
)
_DECODE_PROMPT = 16  # tokens: the shortest that is worth a step
# Choices of kernels for prompts.
_PATHS = {
    OURS: "product_tokens=1",
    CUBLAS: "product_tokens=0,cublas_tokens=1",
    STOCK: "product_tokens=0,cublas_tokens=0",
    PAGES: "gather_tokens=65536",
}
_MOST_CONFINED = 16  # streams: more take too long on a part of the GPU


def bandwidth(context: Context) -> Found:
    """Copies within the GPU's memory: bytes read and written in a second."""
    found: Found = json.loads(context.need([sys.executable, "-c", _PROBE]).out)
    if found["problem"] or found["copy_gb_s"] is None:
        raise StepFailed(found["problem"] or "memory was too short for a copy", found)
    return found


def synthesize(shape: str, context: Context) -> Found:
    """A file of a real model's shape with random weights, made once."""
    path = context.model(shape)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        making = path.with_name(f"{path.name}.making")
        arguments = ("models", "synth", "--shape", SHAPES[shape], "--force", "-q", str(making))
        context.need(python("orin_llm.cli", *arguments))
        making.rename(path)
    return {"file": str(path), "bytes": path.stat().st_size}


def decode(shape: str, context: Context) -> Found:
    """One stream, at several depths as far as the model's context reaches."""
    answer = [context.sizes.answer]
    return bench(context, shape, "single", p=[_DECODE_PROMPT], n=answer, d=_depths(shape, context))


def _depths(shape: str, context: Context) -> list[int]:
    sizes = context.sizes
    room = MODEL_SHAPES[SHAPES[shape]].context_length - _DECODE_PROMPT - sizes.answer
    return sorted({min(depth, room) for depth in sizes.depths})


def prefill(shape: str, context: Context) -> Found:
    """One prompt."""
    return bench(context, shape, "single", p=context.sizes.prompts, n=[1], d=[0])


def quantized(shape: str, context: Context) -> Found:
    """One stream with K and V in q8_0, without a context and with the deepest."""
    depths = _depths(shape, context)
    return bench(
        context,
        shape,
        "single",
        "-ctk",
        "q8_0",
        p=[_DECODE_PROMPT],
        n=[context.sizes.answer],
        d=[depths[0], depths[-1]],
    )


def matrices(shape: str, context: Context) -> Found:
    """Prefill and decode beside an engine whose products are llama.cpp's: what these bring."""
    prompt, answer = context.sizes.prompts[0], context.sizes.answer
    return bench(context, shape, "single", against="-matrices", p=[prompt], n=[answer], d=[0])


def chunks(shape: str, context: Context) -> Found:
    """The longest prompt, by the tokens that are computed in a step."""
    sizes = ",".join(map(str, context.sizes.chunks))
    prompts = [context.sizes.prompts[-1]]
    return bench(context, shape, "single", "--chunk-size", sizes, p=prompts, n=[1], d=[0])


def paths(shape: str, context: Context) -> Found:
    """Prompts of one step each, by who computes their products and reads K and V."""
    found: Found = {"results": []}
    for name, kernels in _PATHS.items():
        sizes = ("--kernels", kernels, "--chunk-size", str(context.sizes.steps[-1]))
        try:
            part = bench(context, shape, "single", *sizes, p=context.sizes.steps, n=[1], d=[0])
        except StepFailed as failure:
            raise StepFailed(f"{name}: {failure}", found) from None
        found["results"] += [{**one, "path": name} for one in part["results"]]
    return found


def batches(shape: str, context: Context) -> Found:
    """Several streams at once, beside llama.cpp's own batches without a hook."""
    sizes = context.sizes
    streams = [n for n in sizes.batches if not (context.confined and n > _MOST_CONFINED)]
    numbers = (sizes.batch_prompt, sizes.batch_answer, sizes.fewer_repetitions, *streams)
    arguments = (str(context.model(shape)), context.threads, *map(str, numbers))
    done = context.run(python("gpu_check.batches_child", *arguments))
    return _results(done, "batches")


def concurrent(shape: str, context: Context) -> Found:
    """Several streams at once."""
    sizes = context.sizes
    return bench(
        context,
        shape,
        "concurrent",
        np=sizes.streams,
        p=[sizes.stream_prompt],
        n=[sizes.answer],
    )


def bench(
    context: Context,
    shape: str,
    workload: str,
    *more: str,
    against: str = "none",
    **flags: Sequence[int],
) -> Found:
    """`orin-llm bench` with all hooks and with those of `against`, in turns.

    Raises StepFailed, with the results of the workloads that had ended, where not all did.
    """
    command = python(
        "orin_llm.cli", "bench", workload, "--no-profile", "-m", str(context.model(shape))
    )
    command += ["-t", context.threads, *more]
    for flag, values in flags.items():
        command += [f"-{flag}", ",".join(map(str, values))]
    repetitions = (
        context.sizes.repetitions if against == "none" else context.sizes.fewer_repetitions
    )
    command += ["-r", str(repetitions), f"--ab={against}", "-o", "jsonl", "-q"]
    return _results(context.run(command), "orin-llm bench")


def _results(done: Done, what: str) -> Found:
    found: Found = {"results": whole_lines(done.out)}
    if not done.well:
        raise StepFailed(f"{what} {done.why()}", found)
    return found


def whole_lines(text: str) -> list[Found]:
    """The objects of the lines that were written to their end."""
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]
