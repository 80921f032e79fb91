"""Which knobs a machine and a goal have, and their values."""

from __future__ import annotations

import os
from collections.abc import Sequence

from orin_llm.engine import EngineConfig
from orin_llm.host.cpu import read_cpu
from orin_llm.host.cpu_set import cores_text, parse_cores
from orin_llm.tune.goal import Goal
from orin_llm.tune.knobs import KERNELS, Candidate, Knob, Space, Value
from orin_llm.tune.work import Work

PAGE_SIZES = (16, 32, 64, 128, 256)
_CHUNKS_GPU = (128, 256, 512, 1024, 2048, 4096)
_CHUNKS_CPU = (64, 128, 256, 512, 1024)
_BATCHES = (2, 4, 8, 16, 32, 64)
_CLUSTER = 4  # cores of an Orin that share a cache
# What computes products of weights in steps of prompts: our kernel by default; llama.cpp's for
# quantized weights; cuBLAS from some tokens on, of weights decoded to f16.
MATRIX_PATHS = (
    "",
    "product_tokens=0,cublas_tokens=0",
    "product_tokens=0,cublas_tokens=128",
    "product_tokens=0,cublas_tokens=512",
    "product_most=256,cublas_tokens=257",
)
_VECTORS = ("", "vector_tokens=1", "vector_tokens=2", "vector_tokens=4", "vector_tokens=8")


def default_space(
    base: EngineConfig,
    goal: Goal,
    work: Work,
    *,
    on_gpu: bool,
    kv_types: Sequence[str] = (),
    allowed_cpus: frozenset[int] | None = None,
) -> Space:
    """The knobs that matter for a goal, each with the value of `base` as its default.

    Args:
        on_gpu: a GPU computes.
        kv_types: beside that of `base`, those whose loss of quality is within the bound.
        allowed_cpus: that this process may use; None asks the system.
    """
    cpus = frozenset(os.sched_getaffinity(0)) if allowed_cpus is None else allowed_cpus
    knobs = []
    if goal.needs_prefill:
        chunks = _useful(_CHUNKS_GPU if on_gpu else _CHUNKS_CPU, work)
        knobs.append(_numbers("chunk_size", chunks, base))
    knobs.append(_numbers("page_size", PAGE_SIZES, base))
    if goal.needs_concurrent:
        knobs.append(_numbers("max_batch", [n for n in _BATCHES if n <= 2 * work.streams], base))
    if kv_types:
        others = [name for name in kv_types if name != base.kv_type]
        knobs.append(Knob("kv_type", (base.kv_type, *others), base.kv_type))
    if on_gpu:
        if not base.kernels.chosen and goal.needs_prefill:
            knobs.append(Knob("matrix path", MATRIX_PATHS, "", KERNELS))
        if not base.kernels.chosen and (goal.needs_decode or goal.needs_concurrent):
            knobs.append(Knob("vector kernel", _VECTORS, "", KERNELS))
    else:
        knobs += _cpu_knobs(base, cpus)
    used = [knob for knob in knobs if len(knob.values) > 1]
    return Space(tuple(used), _makes_sense)


def _makes_sense(candidate: Candidate) -> bool:
    """No more threads than there are cores for them."""
    cpus, threads = candidate.get("cpus", ""), candidate.get("threads", 0)
    return not cpus or not isinstance(threads, int) or threads <= len(parse_cores(str(cpus)))


def _numbers(name: str, values: Sequence[int], base: EngineConfig) -> Knob:
    default: int = getattr(base, name)
    return Knob(name, tuple(sorted({*values, default})), default)


def _useful(chunks: Sequence[int], work: Work) -> list[int]:
    """Chunks up to the first that holds the longest prompt: larger ones are the same."""
    enough = min((chunk for chunk in chunks if chunk >= work.longest), default=chunks[-1])
    return [chunk for chunk in chunks if chunk <= enough]


def _cpu_knobs(base: EngineConfig, cpus: frozenset[int]) -> list[Knob]:
    cpu = read_cpu(allowed=cpus)
    default = base.threads or cpu.threads
    counts = {1, 2, default, max(1, default // 2), max(1, default - 1), cpu.logical_cores}
    if default >= 3:
        counts.discard(1)
    threads = tuple(sorted(count for count in counts if count <= max(default, len(cpus))))
    clusters: list[Value] = [base.cpus]
    for size in (_CLUSTER, 2 * _CLUSTER):
        if size < len(cpus):
            clusters.append(cores_text(sorted(cpus)[:size]))
    return [
        Knob("threads", threads, default),
        Knob("cpus", tuple(dict.fromkeys(clusters)), base.cpus),
    ]
