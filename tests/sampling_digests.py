"""What the sampling rule gives for many rows, as digests: the same on every machine.

    python tests/sampling_digests.py > tests/sampling_digests.json    where the rule itself changed

Logits are made of the raw bits of a generator, without a function of a C library in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sampling_float64 import Rule
from sampling_support import Logits, params

from orin_llm._native import SamplingRow, SamplingWorkspace

Bits = NDArray[np.uint64]

SMALL, LARGE = (1, 3, 63, 64, 65, 1000, 4097), 131_073
SEEDS = 4  # of the small sizes
LIKELIEST = 8

PENALIZED = Rule(0.7, repeat_penalty=1.3, frequency_penalty=0.4, presence_penalty=-0.2)
RULES = (
    Rule(temperature=0),
    Rule(temperature=1),
    Rule(temperature=1e-6, top_k=40),
    Rule(0.8, 40, 0.95, 0.05),
    Rule(0.8, 40, 0.95, 0.05, order="llama"),
    Rule(1.7, 0, 0.95),
    Rule(1.7, 0, 0.95, order="llama"),
    Rule(0.3, 1000, 0.5),
    Rule(3e38, 0, 1, 0.999),
    Rule(0.6, 0, 1, 1e-6),
    PENALIZED,
    replace(PENALIZED, temperature=0),
    replace(PENALIZED, top_p=0.9, order="llama"),
)


def _uniform(bits: Bits) -> Logits:
    """0 … 1, exact."""
    return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)


def _bell(bits: Bits) -> Logits:
    """About normal, of deviation 3: a sum of four integers of 16 bits, exact."""
    parts = bits.view(np.uint16).reshape(-1, 4).astype(np.int64).sum(axis=1)
    return ((parts - 131_070) * 5).astype(np.float32) * np.float32(2**-16)


def _peaked(bits: Bits) -> Logits:
    return _bell(bits) + np.where(bits % np.uint64(500) == 0, np.float32(15), np.float32(0))


def _holes(bits: Bits) -> Logits:
    return np.where(bits % np.uint64(8) == 0, _bell(bits), np.float32(-np.inf))


def _any_finite(bits: Bits) -> Logits:
    """One bit of the exponent is never set."""
    return (bits.astype(np.uint32) & np.uint32(0xFF7FFFFF)).view(np.float32)


SHAPES: dict[str, Callable[[Bits], Logits]] = {
    "bell": _bell,
    "peaked": _peaked,
    "neighbours": lambda bits: np.float32(1) + _uniform(bits) * np.float32(2**-20),
    "ties": lambda bits: np.floor(_uniform(bits) * np.float32(8)),
    "holes": _holes,
    "zeros": lambda bits: np.where(bits % np.uint64(2) == 0, np.float32(0), np.float32(-0.0)),
    "any finite": _any_finite,
}


@dataclass(frozen=True)
class Case:
    logits: Logits
    bits: Bits
    number: int

    @property
    def row_fields(self) -> dict[str, Any]:
        """Recent tokens, and in every second case a bias and a mask."""
        n_vocab = len(self.logits)
        fields: dict[str, Any] = {"recent": (self.bits[:70] % np.uint64(n_vocab)).tolist()}
        if self.number % 2 == 1:
            fields["bias"] = [(int(self.bits[0]) % n_vocab, 2.5), (n_vocab // 2, -1.25)]
            words = self.bits[: (n_vocab + 31) // 32].astype(np.uint32)
            likeliest = int(np.argmax(self.logits))
            words[likeliest // 32] |= np.uint32(1 << likeliest % 32)
            fields["mask"] = words
        return fields


def cases(shape: str) -> Iterator[Case]:
    sizes = [size for size in SMALL for _ in range(SEEDS)] + [LARGE] * 2
    for number, n_vocab in enumerate(sizes):
        # Raw bits of a bit generator stay what they are; what a Generator makes of them may change.
        bits: Bits = np.random.PCG64(1000 * n_vocab + number).random_raw(n_vocab)
        logits = SHAPES[shape](bits).astype(np.float32)
        if np.isneginf(logits).all():
            logits[0] = 1
        yield Case(logits, bits, number)


def digests(shape: str) -> dict[str, str]:
    """Of candidates and weights, of drawn tokens, and of log-probabilities."""
    found = {name: blake2b(digest_size=16) for name in ("candidates", "tokens", "logprobs")}
    workspace = SamplingWorkspace(LARGE)
    for case in cases(shape):
        for rule in RULES:
            row = SamplingRow(params(rule, seed=case.number), case.logits, **case.row_fields)
            ids, weights = workspace.candidates(row)
            found["candidates"].update(np.asarray(ids, "<i4").tobytes())
            found["candidates"].update(np.asarray(weights, "<u4").tobytes())
            drawn = [workspace.sample(row, position=position) for position in range(4)]
            found["tokens"].update(np.asarray(drawn, "<i4").tobytes())
        chosen = len(case.logits) - 1
        for token, logprob in workspace.top_logprobs(case.logits, n=LIKELIEST, chosen=chosen):
            found["logprobs"].update(np.asarray(token, "<i4").tobytes())
            found["logprobs"].update(np.asarray(logprob, "<f4").tobytes())
    return {name: digest.hexdigest() for name, digest in found.items()}


if __name__ == "__main__":
    print(json.dumps({shape: digests(shape) for shape in SHAPES}, indent=1))
