"""The requests of each shape: prompts of random tokens, greedy answers of exact lengths."""

from __future__ import annotations

from orin_llm.accept.shapes import GrowthShape, LoadShape, PagesShape, ThroughputShape, TtftShape
from orin_llm.bench.workload import Prompts, Submission, Wave, Workload


def at_once(prompts: Prompts, n: int, prompt_tokens: int, max_tokens: int) -> Workload:
    """`n` requests that come at the same time."""
    wave = Wave(
        tuple(Submission("stream", prompts.draw(prompt_tokens), max_tokens) for _ in range(n))
    )
    return Workload((wave,))


def one_by_one(prompts: Prompts, shape: TtftShape | GrowthShape) -> list[Workload]:
    """One request in each: every one begins with an empty KV cache."""
    return [
        at_once(prompts, 1, shape.prompt_tokens, shape.max_tokens) for _ in range(shape.requests)
    ]


def rounds(prompts: Prompts, shape: LoadShape) -> list[Workload]:
    """Some requests at once in each."""
    return [
        at_once(prompts, shape.streams, shape.prompt_tokens, shape.max_tokens)
        for _ in range(shape.rounds)
    ]


def streams(prompts: Prompts, shape: PagesShape) -> list[Workload]:
    """All at once."""
    return [at_once(prompts, shape.streams, shape.prompt_tokens, shape.max_tokens)]


def batches(prompts: Prompts, shape: ThroughputShape) -> list[Workload]:
    """All at once: the engine computes a batch of them, and takes the next as soon as one ends."""
    return [at_once(prompts, shape.requests, shape.prompt_tokens, shape.max_tokens)]


def whole_context(prompts: Prompts, n_ctx: int, max_tokens: int) -> list[Workload]:
    """One request that, with its answer, is as long as the context."""
    return [at_once(prompts, 1, n_ctx - max_tokens, max_tokens)]
