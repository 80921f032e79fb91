"""Prints what an engine makes of a text: the mean of -log(probability) of its tokens.

    python -m gpu_check.perplexity_child MODEL HOOKS THREADS WINDOWS

The text is this repository's documentation, cut into windows: the first half of each is a prompt,
which is computed as one, the tokens of the other half are given one by one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gpu_check.probes import probes
from gpu_check.steps import ROOT
from orin_llm.engine import Engine, EngineConfig, Hooks

HALF = 128  # tokens


def main() -> None:
    model, hooks = Path(sys.argv[1]), Hooks.parse(sys.argv[2])
    threads, n_windows = int(sys.argv[3]), int(sys.argv[4])
    config = EngineConfig(n_ctx=2 * HALF, max_batch=1, threads=threads, hooks=hooks, publish=False)
    with Engine(model, config) as engine:
        ids = engine.tokenize(text())
        probe = probes().StepProbe(engine.model, engine.native_params)
        windows = [ids[i : i + 2 * HALF] for i in range(0, len(ids), 2 * HALF)][:n_windows]
        means = [mean_loss(probe, window) for window in windows if len(window) == 2 * HALF]
        print(json.dumps({"tokens": len(means) * HALF, "losses": means}))


def text() -> str:
    """README and docs, in the order of their names."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def mean_loss(probe: Any, window: list[int]) -> float:
    losses = []
    probe.forget()
    probe.prefill(window[:HALF])
    for token in window[HALF:]:
        logits = np.asarray(probe.logits(), np.float64)
        most = logits.max()
        losses.append(most + np.log(np.exp(logits - most).sum()) - logits[token])
        if len(losses) < HALF:
            probe.decode(token)
    return float(np.mean(losses))


if __name__ == "__main__":
    main()
