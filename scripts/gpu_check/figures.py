"""Reads speeds out of a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Steps = dict[str, dict[str, Any]]
_DECODE, _PREFILL = "decode_tokens_per_s", "prefill_tokens_per_s"
# What each benchmark is about.
KINDS = {
    "decode": (_DECODE,),
    "quantized": (_DECODE,),
    "matrices": (_PREFILL, _DECODE),
    "prefill": (_PREFILL,),
    "chunks": (_PREFILL,),
    "gather": (_PREFILL,),
    "batches": (_DECODE,),
    "concurrent": ("output_tokens_per_s",),
}


@dataclass(frozen=True)
class Pair:
    """One workload with and without hooks, taking turns: medians, and that of the ratios.

    workload: its settings, and those of the engine. figure: what was measured of it.
    """

    kind: str
    model: str
    label: str
    workload: dict[str, Any]
    figure: str
    on: float | None
    off: float | None
    ratio: float | None


def pairs(steps: Steps, prefix: str = "") -> Iterator[Pair]:
    """Of all benchmarks whose names begin so."""
    for name, entry in steps.items():
        kind, _, shape = name.removeprefix(prefix).partition(".")
        if not name.startswith(prefix) or kind not in KINDS or not shape:
            continue
        results = entry["result"].get("results", [])
        for on, off in zip(results[::2], results[1::2], strict=False):
            for figure in KINDS[kind]:
                yield Pair(
                    kind,
                    shape,
                    _label(kind, on, figure),
                    {**on.get("workload", {}), **_settings(on)},
                    figure,
                    _median(on["figures"], figure),
                    _median(off["figures"], figure),
                    _median(off["speedup"], figure),
                )


def result_of(steps: Steps, name: str) -> dict[str, Any]:
    """What a step found; empty where it found nothing."""
    found: dict[str, Any] = steps.get(name, {}).get("result", {})
    return found


def _settings(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result["engine"].get(name) for name in ("chunk_size", "kv_type")}


def _label(kind: str, result: dict[str, Any], figure: str) -> str:
    """The workload, and what else tells one pair of this kind from another."""
    settings = _settings(result)
    words = [result["label"]]
    if settings["kv_type"] not in (None, "f16"):
        words.append(f"{settings['kv_type']} KV")
    if kind == "chunks":
        words.append(f"chunks of {settings['chunk_size']}")
    if len(KINDS[kind]) > 1:
        words.append(figure.partition("_")[0])
    return " ".join(words)


def _median(spreads: dict[str, dict[str, float]], name: str) -> float | None:
    return spreads[name]["median"] if name in spreads else None
