"""Steps that take times: models of real shapes, our hooks and stock taking turns, copies."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from gpu_check.steps import SHAPES, Context, Found, StepFailed, python
from orin_llm.models.shapes import SHAPES as MODEL_SHAPES

_PROBE = (
    "import json; from orin_llm.device.probes.cuda import probe_cuda;"
    " print(json.dumps(probe_cuda().to_json()))"
)
_DECODE_PROMPT = 16  # tokens: the shortest that is worth a step


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
    sizes = context.sizes
    room = MODEL_SHAPES[SHAPES[shape]].context_length - _DECODE_PROMPT - sizes.answer
    depths = sorted({min(depth, room) for depth in sizes.depths})
    return bench(context, shape, "single", p=[_DECODE_PROMPT], n=[sizes.answer], d=depths)


def prefill(shape: str, context: Context) -> Found:
    """One prompt."""
    return bench(context, shape, "single", p=context.sizes.prompts, n=[1], d=[0])


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


def bench(context: Context, shape: str, workload: str, **flags: Sequence[int]) -> Found:
    """`orin-llm bench` with the hooks on and off, in turns.

    Raises StepFailed, with the results of the workloads that had ended, where not all did.
    """
    command = python("orin_llm.cli", "bench", workload, "-m", str(context.model(shape)))
    command += ["-t", context.threads]
    for flag, values in flags.items():
        command += [f"-{flag}", ",".join(map(str, values))]
    command += ["-r", str(context.sizes.repetitions), "--ab", "none", "-o", "jsonl", "-q"]
    done = context.run(command)
    found: Found = {"results": _whole_lines(done.out)}
    if not done.well:
        raise StepFailed(f"orin-llm bench {done.why()}", found)
    return found


def _whole_lines(text: str) -> list[Found]:
    """The objects of the lines that were written to their end."""
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]
