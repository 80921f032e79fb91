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
    "paths": (_PREFILL,),
    "batches": (_DECODE,),
    "concurrent": ("output_tokens_per_s",),
}


# Who computes a prompt: see the benchmark `paths`.
OURS, CUBLAS, STOCK, PAGES = (
    "our products",
    "cuBLAS",
    "llama.cpp's products",
    "attention from pages",
)
_NO_LIMIT = 65536  # of choices of kernels that say how many tokens


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


def path_choices(steps: Steps, prefix: str, shape: str) -> dict[str, int]:
    """Choices of kernels for prompts, from where on one way is the faster one; empty without times.

    cuBLAS, or attention over what was gathered, is taken from the number of tokens from which it
    won at every number that was tried.
    """
    results = result_of(steps, f"{prefix}paths.{shape}").get("results", [])[::2]
    speeds: dict[str, dict[int, float]] = {}
    for one in results:
        speed = _median(one["figures"], _PREFILL)
        if speed is not None:
            speeds.setdefault(one["path"], {})[one["workload"]["prompt_tokens"]] = speed
    found = {}
    if (first := _wins_from(speeds.get(CUBLAS, {}), speeds.get(OURS, {}))) is not None:
        found = {"product_most": first - 1, "cublas_tokens": first} if first <= _NO_LIMIT else {}
    if (first := _wins_from(speeds.get(OURS, {}), speeds.get(PAGES, {}))) is not None:
        found["gather_tokens"] = min(first, _NO_LIMIT)
    return found


def _wins_from(these: dict[int, float], others: dict[int, float]) -> int | None:
    """Beyond the limit where they do not win at last; None without anything to compare."""
    sizes = sorted(these.keys() & others.keys(), reverse=True)
    first = _NO_LIMIT + 1
    for size in sizes:
        if these[size] <= others[size]:
            break
        first = size
    return first if sizes else None


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
    if path := result.get("path"):
        words.append(path)
    if len(KINDS[kind]) > 1:
        words.append(figure.partition("_")[0])
    return " ".join(words)


def _median(spreads: dict[str, dict[str, float]], name: str) -> float | None:
    return spreads[name]["median"] if name in spreads else None
