"""Whether the board's processor writes what this machine's writes: greedy text, token by token."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arm64_check.steps import WORK, CheckFailed, Emulated, Found, run_program
from checking.checkout import ROOT
from orin_llm.models.names import DEFAULT_MODEL
from orin_llm.models.store import resolve

_GOLDEN = ROOT / "calibration/greedy_smollm2.json"
TIE = 1e-3  # log-probabilities of the likeliest two so near: either may be the first
# So many tokens may differ only at a tie. Where weights are quantized, activations are rounded to
# 8 bits: a last bit that differs moves log-probabilities by 0.2, on one machine with and without
# hooks as between machines. What comes later is shown and not judged.
JUDGED = 16

PEERS = ("beside this machine", "beside no hooks")


def greedy(machine: Emulated) -> Found:
    """The step: the default model with weights of F32, and as it is.

    Each text here, there, and there without our hooks.
    """
    from checking.float_model import write_floats  # needs what the build makes

    run_program([sys.executable, "-m", "orin_llm.cli", "models", "pull", DEFAULT_MODEL])
    model = resolve(DEFAULT_MODEL)
    floats = WORK / f"{model.stem}.F32.gguf"
    floats.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_floats(model, floats, "F32")
        found = {"F32": _texts(machine, floats, n_prompts=2, n_tokens=JUDGED)}
    finally:
        floats.unlink(missing_ok=True)
    found["as it is"] = _texts(machine, model, n_prompts=3, n_tokens=24)
    return judged(found)


def _texts(machine: Emulated, model: Path, n_prompts: int, n_tokens: int) -> dict[str, Found]:
    golden = json.loads(_GOLDEN.read_text(encoding="utf-8"))["texts"][:n_prompts]
    # One thread: under emulation several wait for each other longer than they compute.
    asked = {
        "model": str(model), "prompts": [text["prompt_tokens"] for text in golden],
        "tokens": n_tokens, "threads": 1, "logprobs": True,
    }  # fmt: skip

    def child(hooks: str) -> list[str]:
        return ["-m", "checking.greedy_child", json.dumps({**asked, "hooks": hooks})]

    here = json.loads(run_program([sys.executable, *child("all")]).stdout)["texts"]
    there, stock = (
        json.loads(machine.run(child(hooks)).stdout)["texts"] for hooks in ("all", "none")
    )
    return {
        PEERS[0]: compare(here, there),
        PEERS[1]: compare(stock, there),
        "ms": {
            name: round(statistics.median(text[name] for text in there))
            for name in ("ttft_ms", "tpot_ms")
        },
    }


def compare(expected: Sequence[Any], found: Sequence[Any]) -> Found:
    """How far texts agree.

    Args:
        expected, found: of each prompt the `ids`, and of each place the `logprobs` of the two
            likeliest tokens, the chosen one first.
    """
    differences = []
    moved = 0.0  # log-probabilities of tokens that both have chosen behind the same text
    for prompt, (one, other) in enumerate(zip(expected, found, strict=True)):
        places = zip(one["ids"], other["ids"], one["logprobs"], other["logprobs"], strict=True)
        for place, (a, b, of_a, of_b) in enumerate(places):
            if a != b:
                gap = min(of_a[0] - of_a[1], of_b[0] - of_b[1])
                differences.append({"prompt": prompt, "place": place, "gap": round(gap, 5)})
                break
            moved = max(moved, abs(of_a[0] - of_b[0]))
    return {
        "texts": len(found),
        "tokens": len(found[0]["ids"]),
        "differences": differences,
        "logprobs_moved": round(moved, 5),
    }


def judged(found: Mapping[str, Mapping[str, Any]]) -> Found:
    """What was found. Raises CheckFailed where a text differs early and at no tie."""
    for weights, texts in found.items():
        for peer in PEERS:
            for difference in texts[peer]["differences"]:
                if difference["place"] < JUDGED and difference["gap"] > TIE:
                    raise CheckFailed(
                        f"weights {weights}, {peer}: text {difference['prompt']} differs at token"
                        f" {difference['place']}, where the log-probabilities of the likeliest two"
                        f" are {difference['gap']} apart; expected: equal for {JUDGED} tokens, or"
                        f" at most {TIE} apart"
                    )
    return dict(found)
