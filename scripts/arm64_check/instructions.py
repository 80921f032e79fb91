"""The step that counts the instructions of attention, ours and llama.cpp's on the same inputs.

An emulator has no times worth telling, but it executes the board's instructions one by one.
"""

from __future__ import annotations

import json
from itertools import pairwise, product
from pathlib import Path

from arm64_check.steps import WORK, CheckFailed, Emulated, Found, run_program
from native.toolchain import find_toolchain

MODEL = "llama-8b"
N_HEAD, HEAD_DIM = 32, 128
KV_TYPES = ("f16", "bf16", "q8_0", "q4_0")
SHAPES = {"decode": (4095, 1), "prefill": (64, 64)}  # depth, tokens
_PLUGIN = Path(__file__).with_name("count_instructions.c")


def instructions(machine: Emulated) -> Found:
    """For a query head, a key and 16 of its values: in K, in V, and all that is around them."""
    cases = [(MODEL, kv_type, *shape) for shape, kv_type in product(SHAPES.values(), KV_TYPES)]
    counts = iter(_count(machine, cases))
    found: Found = {}
    slower = []
    for (name, (depth, n_tokens)), kv_type in product(SHAPES.items(), KV_TYPES):
        ours, theirs = (next(counts) / _products(depth, n_tokens) for _ in range(2))
        line = f"{ours:.1f} : {theirs:.1f} = {ours / theirs:.2f}"
        found[f"{name} {kv_type}"] = line
        if ours >= theirs:
            slower.append(f"{name} {kv_type} {line}")
    if slower:
        raise CheckFailed(
            "attention takes no fewer instructions than llama.cpp's (ours : theirs): "
            + ", ".join(slower)
            + "; look at the inner loops of cpp/attention in the disassembly"
        )
    return found


def _products(depth: int, n_tokens: int) -> float:
    """Query heads times keys times values, in 16s."""
    n_keys = sum(depth + token + 1 for token in range(n_tokens))
    return N_HEAD * n_keys * HEAD_DIM / 16


def _count(machine: Emulated, cases: list[tuple[str, str, int, int]]) -> list[int]:
    """Instructions of each case: ours, llama.cpp's."""
    marks = WORK / "marks.txt"
    marks.parent.mkdir(parents=True, exist_ok=True)
    machine.run(
        ["-m", "arm64_check.attention_turns", json.dumps(cases)],
        env={"QEMU_PLUGIN": f"file={_build_plugin()},out={marks}"},
    )
    counts = [int(line) for line in marks.read_text().split()]
    if len(counts) != 4 * len(cases):
        raise CheckFailed(
            f"{4 * len(cases)} marks expected in {marks}, {len(counts)} found: is another program"
            " using this folder?"
        )
    return [after - before for before, after in list(pairwise(counts))[::2]]


def _build_plugin() -> Path:
    plugin = WORK / "count_instructions.so"
    compiler = find_toolchain().cc
    run_program([compiler, "-O2", "-shared", "-fPIC", str(_PLUGIN), "-o", str(plugin)])
    return plugin
