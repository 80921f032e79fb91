"""All steps, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from checking.steps import Found
from gpu_check.benchmarks import (
    bandwidth,
    batches,
    chunks,
    concurrent,
    decode,
    matrices,
    paths,
    prefill,
    quantized,
    synthesize,
)
from gpu_check.checks import build, engine_tests, kernels, sanitizer
from gpu_check.errors import errors
from gpu_check.greedy import greedy
from gpu_check.growth import growth
from gpu_check.kernel_times import kernel_times
from gpu_check.machine import environment
from gpu_check.perplexity import perplexity
from gpu_check.proxy import on_proxy
from gpu_check.steps import SHAPES, Context, Step
from gpu_check.targets import PROXY
from gpu_check.trace import trace

_BUILT = ("build",)
_PROXY_RANK = 1  # on the whole GPU first
_SMALL_RANK = 3  # of the small shape there
_CONFINED = (
    "bandwidth", "kernel_times", "decode", "quantized", "prefill", "batches", "matrices",
    "chunks", "paths",
)  # fmt: skip


def all_steps(shapes: Sequence[str], on_gpu: bool) -> list[Step]:
    """Those that there are for these models on this device."""
    steps = [
        Step("environment", "what the machine is", environment, 60, 5, 0),
        Step("build", "the module, with CUDA", build, 3600, 240, 0),
    ]
    if on_gpu:
        steps += [
            Step("kernels", "each kernel's tests", kernels, 600, 120, 1, _BUILT),
            Step("engine", "whole engines' tests", engine_tests, 600, 120, 1, _BUILT),
            Step("bandwidth", "copies in the GPU's memory", bandwidth, 60, 5, 1),
        ]
    smallest = shapes[0]
    steps += [
        Step("kernel_times", "each kernel at sizes of real models", kernel_times, 600, 90, 2),
        Step("errors", "products beside float64, and stock's", errors, 300, 30, 2, _BUILT),
        *map(_synth, shapes),
        _measure("greedy", "greedy text beside the CPU's", greedy, smallest, 600, 60, 3, False),
        _measure(
            "perplexity", "of text, hooks on and off", perplexity, smallest, 600, 110, 3, False
        ),
        *(step for shape in shapes for step in _of_model(shape, on_gpu)),
    ]
    if on_gpu:
        steps += [
            Step(f"sanitizer.{tool}", f"kernels under {tool}", partial(sanitizer, tool),
                 600, 120, rank, _BUILT)
            for tool, rank in (("memcheck", 6), ("racecheck", 7), ("synccheck", 8))
        ]  # fmt: skip
        steps += [_confined(step) for step in steps if step.name.split(".")[0] in _CONFINED]
    return steps


def _synth(shape: str) -> Step:
    name = f"models.{shape}"
    does = f"a file of {SHAPES[shape]}'s shape"
    seconds = 30 if shape == "1b" else 150
    return Step(name, does, partial(synthesize, shape), 900, seconds, 2, _BUILT, serves=True)


def _of_model(shape: str, on_gpu: bool) -> list[Step]:
    # What is asked of the 8B shape counts most.
    later = shape == "1b"
    steps = [
        _measure("decode", "one stream, hooks on and off", decode, shape, 600, 60, 2),
        _measure("prefill", "one prompt, hooks on and off", prefill, shape, 600, 25, 2 + later),
        _measure("batches", "streams beside llama.cpp's", batches, shape, 600, 60, 2 + 2 * later),
        _measure("quantized", "one stream, KV in q8_0", quantized, shape, 600, 40, 3 + 2 * later),
        _measure("matrices", "with and without our products", matrices, shape, 600, 20, 4),
        _measure("chunks", "prefill by chunk size", chunks, shape, 600, 60, 4 + later),
        _measure("paths", "prefill by who computes products", paths, shape, 600, 80, 4 + later),
        _measure("growth", "time per token, first to last", growth, shape, 300, 20, 5),
        _measure("concurrent", "streams, one after another off", concurrent, shape, 600, 60, 8),
    ]
    if on_gpu:
        steps.append(_measure("trace", "idle time, bytes to the host", trace, shape, 300, 40, 6))
    return steps


def _measure(
    kind: str,
    does: str,
    run: Callable[[str, Context], Found],
    shape: str,
    limit_s: float,
    expected_s: float,
    rank: int,
    named_by_shape: bool = True,
) -> Step:
    name = f"{kind}.{shape}" if named_by_shape else kind
    needs = (*_BUILT, f"models.{shape}")
    return Step(name, does, partial(run, shape), limit_s, expected_s, rank, needs)


def _confined(step: Step) -> Step:
    return replace(
        step,
        name=f"{PROXY}.{step.name}",
        does=f"{step.does}; 16 multiprocessors",
        expected_s=2 * step.expected_s,
        rank=step.rank + (_SMALL_RANK if step.name.endswith(".1b") else _PROXY_RANK),
        run=partial(on_proxy, step.run),
    )
