"""What `orin-llm compare` prints: facts, a row of a Markdown table, or plain values for JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from orin_llm.cli.quality_view import estimate_json, figure, print_facts, text_json, text_of
from orin_llm.cli.render import tolerate_narrow_encoding, visible
from orin_llm.quality.compare import Compared
from orin_llm.quality.texts import Corpus

_COLUMNS = (
    "model",
    "KV",
    "hooks",
    "perplexity",
    "of the reference's",
    "KL mean",
    "KL median",
    "KL 99 %",
    "KL max",
    "same top",
    "Δp RMS",
    "logits apart",
)


def comparison_json(found: Compared, corpus: Corpus | None, *, one_by_one: bool) -> dict[str, Any]:
    """All of it, as plain values."""
    all_of_it = found.comparison
    divergence, change = all_of_it.divergence, all_of_it.probability_change
    return {
        "reference": {**found.reference, **estimate_json("ppl", all_of_it.reference_ppl)},
        "model": {**found.model, **estimate_json("ppl", all_of_it.ppl)},
        **text_json(corpus, found.windows, one_by_one=one_by_one),
        **estimate_json("ppl_ratio", all_of_it.ppl_ratio),
        "kl_divergence": {
            **estimate_json("mean", divergence.mean),
            "median": divergence.median,
            "p90": divergence.p90,
            "p99": divergence.p99,
            "max": divergence.max,
        },
        **estimate_json("same_top", all_of_it.top_agreement),
        "probability_change": {
            **estimate_json("mean", change.mean),
            **estimate_json("rms", change.rms),
            "max": change.max,
        },
        "max_logit_difference": all_of_it.max_logit_difference,
        "elapsed_ms": found.elapsed_ms,
    }


def print_comparison(said: dict[str, Any]) -> None:
    """For people."""
    reference, model = said["reference"], said["model"]
    divergence, change = said["kl_divergence"], said["probability_change"]
    logits = said["max_logit_difference"]
    print_facts(
        [
            ("reference", _described(reference)),
            ("model", _described(model)),
            ("text", text_of(said)),
            ("perplexity", f"{figure(model, 'ppl')}, the reference's {figure(reference, 'ppl')}"),
            ("ratio", figure(said, "ppl_ratio", 5)),
            (
                "KL divergence",
                f"mean {figure(divergence, 'mean', 6)}, median {divergence['median']:.6f}, "
                f"99 % {divergence['p99']:.6f}, max {divergence['max']:.6f}",
            ),
            ("same top", figure(said, "same_top", 2, percent=True)),
            (
                "probability",
                f"RMS {figure(change, 'rms', 3, percent=True)}, "
                f"mean {figure(change, 'mean', 3, percent=True)}, max {100 * change['max']:.2f} %",
            ),
            ("logits", "not known" if logits is None else f"at most {logits:.4f} apart"),
        ]
    )


def print_markdown(said: dict[str, Any]) -> None:
    """A table of one row, whose rows can be put together."""
    tolerate_narrow_encoding(sys.stdout)
    model, divergence, change = said["model"], said["kl_divergence"], said["probability_change"]
    logits = said["max_logit_difference"]
    cells = [
        Path(model["model"]).name,
        model["kv_type"],
        _hooks(model),
        figure(model, "ppl"),
        figure(said, "ppl_ratio", 5),
        figure(divergence, "mean", 6),
        f"{divergence['median']:.6f}",
        f"{divergence['p99']:.6f}",
        f"{divergence['max']:.6f}",
        figure(said, "same_top", 2, percent=True),
        figure(change, "rms", 3, percent=True),
        "" if logits is None else f"{logits:.4f}",
    ]
    for row in (_COLUMNS, ("---",) * len(_COLUMNS), map(_cell, cells)):
        print(f"| {' | '.join(row)} |")


def _described(side: dict[str, Any]) -> str:
    if "logits" in side:
        return f"log-probabilities in {side['logits']}"
    return f"{side['model']}, KV cache {side['kv_type']}, hooks {_hooks(side)}"


def _hooks(side: dict[str, Any]) -> str:
    """Those that are on."""
    on = [name for name, state in side["backend"]["hooks"].items() if state == "on"]
    return ", ".join(on) or "none"


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|")
