"""Prints greedy texts of an engine on whatever device it finds.

    python -m checking.greedy_child REQUEST

REQUEST is a JSON object: `model`, `prompts` (each a text or its tokens), `tokens` to write of each,
`threads`, `hooks`, and `logprobs`: whether to tell those of the two likeliest tokens at each place,
too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from orin_llm.engine import Engine, EngineConfig, Hooks, Request, SamplingParams


def main() -> None:
    asked = json.loads(sys.argv[1])
    hooks = Hooks.parse(asked["hooks"])
    config = EngineConfig(
        n_ctx=512, max_batch=1, threads=asked["threads"], hooks=hooks, publish=False
    )
    with Engine(Path(asked["model"]), config) as engine:
        texts = [_write(engine, prompt, asked) for prompt in asked["prompts"]]
        print(json.dumps({"device": engine.backend["device"], "texts": texts}))


def _write(engine: Engine, prompt: str | list[int], asked: dict[str, Any]) -> dict[str, Any]:
    request = Request(
        engine.tokenize(prompt) if isinstance(prompt, str) else prompt,
        SamplingParams(temperature=0),
        max_tokens=asked["tokens"],
        ignore_eos=True,
        logprobs=2 if asked["logprobs"] else None,
    )
    completion = engine.complete(request)
    chunks = list(completion)
    timings = completion.result.timings
    return {
        "ids": [token for chunk in chunks for token in chunk.token_ids],
        "logprobs": [[p for _, p in place.top] for chunk in chunks for place in chunk.logprobs],
        "ttft_ms": timings.ttft_ms,
        "tpot_ms": timings.tpot_ms,
    }


if __name__ == "__main__":
    main()
