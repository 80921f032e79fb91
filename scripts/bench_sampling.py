#!/usr/bin/env python3
"""Speed of our sampling beside llama.cpp's sampler chain, on one core, in one run, taking turns.

    scripts/bench_sampling.py
    scripts/bench_sampling.py --vocab 262144 --repetitions 101 --json

Prints the median of each side in microseconds and of the pairwise ratios (ours / llama.cpp's, below
1 is faster). Logits are made up: `peaked` is like a language model's row, `flat` is the worst case.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median

import numpy as np
from numpy.typing import NDArray

from orin_llm import _native
from orin_llm._native import SamplingParams, SamplingRow, SamplingWorkspace

WINDOW = 64  # recent tokens that the penalties look at


@dataclass(frozen=True)
class Setting:
    """Parameters whose speed differs; the rest of them is off."""

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0

    def params(self) -> SamplingParams:
        return SamplingParams(
            **asdict(self), frequency_penalty=0.0, presence_penalty=0.0, order="orin", seed=1
        )


SETTINGS = {
    "greedy": Setting(temperature=0),
    "greedy, penalties": Setting(temperature=0, repeat_penalty=1.1),
    "full chain": Setting(0.8, 40, 0.95, 0.05, 1.1),
    "top-p 0.95": Setting(top_p=0.95),
    "top-p 0.95, min-p 0.05": Setting(top_p=0.95, min_p=0.05),
    "temperature only": Setting(),
}


def logits_of(shape: str, n_vocab: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 2.5 if shape == "peaked" else 0.1, n_vocab)
    if shape == "peaked":
        logits[rng.integers(0, n_vocab, 30)] = rng.uniform(12, 20, 30)
    return logits.astype(np.float32)


def microseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - started) / 1e3


def compare(setting: Setting, logits: NDArray[np.float32], repetitions: int) -> dict[str, float]:
    recent = np.random.default_rng(2).integers(0, len(logits), WINDOW).astype(np.int32)
    workspace = SamplingWorkspace(len(logits))
    row = SamplingRow(setting.params(), logits, recent=recent)
    chain = _native.testing.ChainProbe(setting.params(), penalty_window=WINDOW, n_vocab=len(logits))
    for token in recent:
        chain.see(int(token))
    ours, theirs = [], []
    for repetition in range(repetitions + 3):
        a = microseconds(partial(workspace.sample, row, position=repetition))
        b = microseconds(partial(chain.sample, logits))
        if repetition >= 3:  # the first pairs warm both up
            ours.append(a)
            theirs.append(b)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {"ours_us": median(ours), "llama_us": median(theirs), "ratio": median(ratios)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--vocab", type=int, nargs="+", default=[131072, 262144])
    parser.add_argument("--repetitions", type=int, default=51, help="pairs counted")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = [
        {"vocab": n_vocab, "logits": shape, "setting": name}
        | compare(setting, logits_of(shape, n_vocab), options.repetitions)
        for n_vocab in options.vocab
        for shape in ("peaked", "flat")
        for name, setting in SETTINGS.items()
    ]
    if options.json:
        print(json.dumps(report))
        return 0
    print(f"{'vocabulary':>10} {'logits':7} {'setting':24} {'ours':>10} {'llama.cpp':>10}  ratio")
    for line in report:
        print(
            f"{line['vocab']:10} {line['logits']:7} {line['setting']:24} "
            f"{line['ours_us']:7.1f} µs {line['llama_us']:7.1f} µs  {line['ratio']:.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
