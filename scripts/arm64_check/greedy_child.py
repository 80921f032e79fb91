"""Prints greedy texts, with the log-probabilities of the two likeliest tokens at each place.

    python -m arm64_check.greedy_child MODEL PROMPTS TOKENS HOOKS

The prompts are the first ones of calibration/greedy_smollm2.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from orin_llm.engine import Engine, EngineConfig, Hooks, Request, SamplingParams

GOLDEN = Path(__file__).resolve().parents[2] / "calibration/greedy_smollm2.json"


def main() -> None:
    n_prompts, n_tokens = map(int, sys.argv[2:4])
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))["texts"][:n_prompts]
    # One thread: under emulation several wait for each other longer than they compute.
    config = EngineConfig(
        n_ctx=256, max_batch=1, threads=1, hooks=Hooks.parse(sys.argv[4]), publish=False
    )
    with Engine(Path(sys.argv[1]), config) as engine:
        texts = [_write(engine, text["prompt_tokens"], n_tokens) for text in golden]
    print(json.dumps(texts))


def _write(engine: Engine, prompt: list[int], n_tokens: int) -> dict[str, Any]:
    request = Request(
        prompt,
        SamplingParams(temperature=0),
        max_tokens=n_tokens,
        ignore_eos=True,
        logprobs=2,
    )
    completion = engine.complete(request)
    places = [place for chunk in completion for place in chunk.logprobs]
    timings = completion.result.timings
    return {
        "ids": [place.token for place in places],
        "logprobs": [[logprob for _, logprob in place.top] for place in places],
        "ttft_ms": timings.ttft_ms,
        "tpot_ms": timings.tpot_ms,
    }


if __name__ == "__main__":
    main()
