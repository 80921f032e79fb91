"""What `orin-llm perplexity` prints, and what `compare` prints like it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from orin_llm.cli.paragraphs import print_paragraph
from orin_llm.cli.render import tolerate_narrow_encoding
from orin_llm.host.units import counted
from orin_llm.quality.estimates import Estimate
from orin_llm.quality.perplexity import Perplexity
from orin_llm.quality.texts import Corpus
from orin_llm.quality.windows import Windows

_LABEL_CELLS = 14


def perplexity_json(
    found: Perplexity,
    model: dict[str, Any],
    windows: Windows,
    corpus: Corpus,
    *,
    one_by_one: bool,
) -> dict[str, Any]:
    """All of it, as plain values."""
    return {
        **model,
        **text_json(corpus, windows, one_by_one=one_by_one),
        **estimate_json("ppl", found.ppl),
        **estimate_json("nll", found.nll),
        "window_ppl": found.window_ppls,
        "elapsed_ms": found.elapsed_ms,
        "tokens_per_s": 1e3 * windows.tokens.size / found.elapsed_ms,
    }


def text_json(corpus: Corpus | None, windows: Windows, *, one_by_one: bool) -> dict[str, Any]:
    """The text, how it was cut, and how the tokens that count were computed."""
    name = {"name": corpus.name, "sha256": corpus.sha256} if corpus else None
    return {
        "text": name,
        "window_tokens": windows.window_tokens,
        "windows": len(windows),
        "scored_tokens": len(windows) * windows.scored_per_window,
        "steps": "decode" if one_by_one else "prompt",
    }


def estimate_json(name: str, found: Estimate) -> dict[str, float]:
    """Two keys: the figure, and its standard deviation."""
    return {name: found.value, f"{name}_uncertainty": found.uncertainty}


def print_perplexity(said: dict[str, Any]) -> None:
    """For people."""
    print_facts(
        [
            ("model", said["model"]),
            ("KV cache", said["kv_type"]),
            ("text", text_of(said)),
            ("perplexity", figure(said, "ppl")),
        ]
    )


def print_facts(rows: Iterable[tuple[str, str]]) -> None:
    """One a line."""
    tolerate_narrow_encoding(sys.stdout)
    for label, text in rows:
        print_paragraph(text, label, _LABEL_CELLS)


def text_of(said: dict[str, Any]) -> str:
    """`evaluation: 25 windows of 512 tokens, 6375 tokens count`."""
    name = f"{said['text']['name']}: " if said["text"] else ""
    windows = counted(said["windows"], "window")
    return (
        f"{name}{windows} of {said['window_tokens']} tokens, {said['scored_tokens']} tokens count"
    )


def figure(said: dict[str, Any], name: str, digits: int = 4, *, percent: bool = False) -> str:
    """`13.5106 ± 0.1234`, or `98.12 ± 0.11 %`."""
    scale, unit = (100, " %") if percent else (1, "")
    value, uncertainty = scale * said[name], scale * said[f"{name}_uncertainty"]
    return f"{value:.{digits}f} ± {uncertainty:.{digits}f}{unit}"
