"""All steps, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gpu_check.benchmarks import bandwidth, concurrent, decode, prefill, synthesize
from gpu_check.checks import build, engine_tests, kernels, sanitizer
from gpu_check.greedy import greedy
from gpu_check.growth import growth
from gpu_check.machine import environment
from gpu_check.steps import SHAPES, Context, Found, Step
from gpu_check.trace import trace

_BUILT = ("build",)
PROXY = "proxy"
_PROXY_RANK = 3  # on the whole GPU first


def all_steps(shapes: Sequence[str], on_gpu: bool) -> list[Step]:
    """Those that there are for these models on this device."""
    steps = [
        Step("environment", "what the machine is", environment, 60, 5, 0),
        Step("build", "the module, with CUDA", build, 3600, 240, 0),
    ]
    if on_gpu:
        steps += [
            Step("kernels", "each kernel's tests", kernels, 600, 90, 1, _BUILT),
            Step("engine", "whole engines' tests", engine_tests, 600, 120, 1, _BUILT),
            Step("bandwidth", "copies in the GPU's memory", bandwidth, 60, 5, 1),
        ]
    measured = [step for shape in shapes for step in _of_model(shape, on_gpu)]
    smallest = shapes[0]
    steps += [step for shape in shapes for step in [_synth(shape)]]
    steps.append(
        _measure("greedy", "greedy text beside the CPU's", greedy, smallest, 600, 60, 2, False)
    )
    steps += measured
    if on_gpu:
        steps += [
            Step(f"sanitizer.{tool}", f"kernels under {tool}", partial(sanitizer, tool),
                 600, 120, rank, _BUILT)
            for tool, rank in (("memcheck", 3), ("racecheck", 5), ("synccheck", 7))
        ]  # fmt: skip
        timed = [step for step in steps if step.name.split(".")[0] in _CONFINED]
        steps += map(_confined, timed)
    return steps


_CONFINED = ("bandwidth", "decode", "prefill", "concurrent")


def _synth(shape: str) -> Step:
    name = f"models.{shape}"
    does = f"a file of {SHAPES[shape]}'s shape"
    seconds = 30 if shape == "1b" else 150
    return Step(name, does, partial(synthesize, shape), 900, seconds, 2, _BUILT, serves=True)


def _of_model(shape: str, on_gpu: bool) -> list[Step]:
    steps = [
        _measure("decode", "one stream, hooks on and off", decode, shape, 600, 90, 2),
        _measure("growth", "time per token, first to last", growth, shape, 300, 30, 3),
        _measure("prefill", "one prompt, hooks on and off", prefill, shape, 600, 30, 4),
        _measure("concurrent", "streams at once, hooks on and off", concurrent, shape, 600, 90, 4),
    ]
    if on_gpu:
        steps.append(_measure("trace", "idle time, bytes to the host", trace, shape, 300, 60, 5))
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
        rank=step.rank + _PROXY_RANK,
        confined=True,
    )
