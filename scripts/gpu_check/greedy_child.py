"""Prints greedy texts of an engine on whatever device it finds.

    python -m gpu_check.greedy_child MODEL TOKENS THREADS HOOKS [gaps]

With `gaps`, also the distance of the two likeliest logits at each place.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from orin_llm.engine import Engine, EngineConfig, Hooks, Request, SamplingParams

PROMPTS = (
    "The capital of France is",
    "Once upon a time there was a small robot that",
    "def fibonacci(n):\n    ",
    "The three most important rules of a kitchen are",
    "In 1969 the first people who walked on the Moon",
)


def main() -> None:
    model, n_tokens, threads = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    hooks, wants_gaps = Hooks.parse(sys.argv[4]), sys.argv[5:] == ["gaps"]
    config = EngineConfig(n_ctx=512, max_batch=1, threads=threads, hooks=hooks, publish=False)
    with Engine(model, config) as engine:
        texts = [_write(engine, prompt, n_tokens, wants_gaps) for prompt in PROMPTS]
        print(json.dumps({"device": engine.backend["device"], "texts": texts}))


def _write(engine: Engine, prompt: str, n_tokens: int, wants_gaps: bool) -> dict[str, Any]:
    request = Request(
        engine.tokenize(prompt),
        SamplingParams(temperature=0),
        max_tokens=n_tokens,
        ignore_eos=True,
        logprobs=2 if wants_gaps else None,
    )
    chunks = list(engine.complete(request))
    text: dict[str, Any] = {"ids": [token for chunk in chunks for token in chunk.token_ids]}
    if wants_gaps:
        tops = [entry.top for chunk in chunks for entry in chunk.logprobs]
        text["gaps"] = [top[0][1] - top[1][1] for top in tops]
    return text


if __name__ == "__main__":
    main()
