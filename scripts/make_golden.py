#!/usr/bin/env python3
"""Write what stock llama.cpp says of the default model: calibration/*_smollm2.json.

- greedy_smollm2.json: greedy texts after some prompts, with margins;
- logits_smollm2.json: the likeliest tokens at some positions of the texts to evaluate with.

Needs the [stock] extra. Run it when the llama.cpp pin moves or those texts change.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from orin_llm import _native
from orin_llm.bench.stock import StockPeer
from orin_llm.models.store import resolve

FOLDER = ROOT / "calibration"
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
TEXT_TOKENS = 96
POSITIONS = [31, 63, 95]
LIKELIEST = 16


def main() -> int:
    path = resolve("smollm2")
    model = _native.Model(str(path), _native.ModelParams(vocab_only=True))
    with StockPeer(path, n_ctx=512) as peer:
        greedy = {"model": "smollm2", "texts": _greedy_texts(model, peer)}
        (FOLDER / "greedy_smollm2.json").write_text(json.dumps(greedy, indent=1) + "\n")
        lines = ",\n  ".join(json.dumps(text) for text in _top_logits(model, peer))
        (FOLDER / "logits_smollm2.json").write_text(
            f'{{"model": "smollm2",\n "positions": {POSITIONS},\n "texts": [\n  {lines}\n ]}}\n'
        )
    return 0


def _greedy_texts(model: _native.Model, peer: StockPeer) -> list[dict[str, Any]]:
    entries = []
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
    return entries


def _top_logits(model: _native.Model, peer: StockPeer) -> list[dict[str, Any]]:
    entries = []
    for file in sorted((FOLDER / "texts" / "evaluation").glob("*.txt")):
        tokens = model.tokenize(file.read_bytes(), add_special=True, parse_special=False)
        tokens = tokens[:TEXT_TOKENS]
        rows = [
            {
                "ids": row["ids"],
                "logits": [round(logit, 3) for logit in row["logits"]],
                "log_sum_exp": round(row["log_sum_exp"], 3),
            }
            for row in peer.top_logits(tokens, POSITIONS, LIKELIEST)
        ]
        entries.append({"text": file.stem, "tokens": tokens, "rows": rows})
    return entries


if __name__ == "__main__":
    sys.exit(main())
