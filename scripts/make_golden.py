#!/usr/bin/env python3
"""Write calibration/greedy_smollm2.json: what stock llama.cpp says greedily, with margins.

Needs the [stock] extra. Run it when the llama.cpp pin moves.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from orin_llm import _native
from orin_llm.bench.stock import StockPeer
from orin_llm.models.store import resolve

TOKENS = 64
PROMPTS = [
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWrite a Python function that reverses a string.<|im_end|>\n"
    "<|im_start|>assistant\n",
    "The history of the steam engine begins with",
    "1, 1, 2, 3, 5, 8, 13,",
    "Il était une fois, dans un petit village,",
    "Dear Sir or Madam,\n\nI am writing to complain about the " + "very " * 60 + "loud music",
]


def main() -> int:
    path = resolve("smollm2")
    model = _native.Model(str(path), _native.ModelParams(vocab_only=True))
    entries = []
    with StockPeer(path, n_ctx=512) as peer:
        for prompt in PROMPTS:
            tokens = model.tokenize(prompt.encode(), add_special=True, parse_special=True)
            ids, margins = peer.greedy(tokens, TOKENS)
            entries.append(
                {
                    "prompt": prompt,
                    "prompt_tokens": tokens,
                    "ids": ids,
                    "margins": [round(margin, 4) for margin in margins],
                }
            )
    out = Path(__file__).parents[1] / "calibration" / "greedy_smollm2.json"
    out.write_text(json.dumps({"model": "smollm2", "texts": entries}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
