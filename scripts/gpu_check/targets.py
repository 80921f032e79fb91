"""The numbers that are asked for, and whether what was measured meets them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

from gpu_check.figures import Pair, Steps, pairs, result_of
from gpu_check.greedy import TIE
from gpu_check.kernel_figures import bytes_per_clock, bytes_per_s, chosen, large_ones, of_kind

PROXY = "proxy"
_WHOLE, _CONFINED = "", f"{PROXY}."
_BATCHES = {_WHOLE: {4: 1.5, 16: 1.2, 32: 1.1}, _CONFINED: {4: 2.0, 8: 2.5, 16: 1.3}}
_DEEP = 8192
_NEARLY_DEEP = 7936  # what is left of a context of 8192 tokens, if nothing else


@dataclass(frozen=True)
class Target:
    """A number that is asked for; `met` is None where it was not measured."""

    what: str
    value: str
    wanted: str
    met: bool | None


def targets(steps: Steps) -> list[Target]:
    """All of them, in the order of their list."""
    return [
        *_decode(steps),
        *_depth(steps),
        *_batches(steps),
        *_prefill(steps),
        *_kernels(steps),
        *_rightness(steps),
        *_even(steps),
    ]


def _decode(steps: Steps) -> Iterator[Target]:
    for prefix, shape, aim, floor in (
        (_WHOLE, "8b", 2.0, 1.7),
        (_CONFINED, "8b", 2.0, 1.7),
        (_WHOLE, "1b", 2.5, 2.0),
    ):
        pair = _pair(steps, prefix, "decode", shape, depth=0)
        what = f"decode, {shape}{_on(prefix)}: hooks on over off"
        yield from _aim_and_floor(what, pair.ratio if pair else None, aim, floor)


def _depth(steps: Steps) -> Iterator[Target]:
    """What a deep context costs, in percent of the speed without one."""
    for prefix in (_WHOLE, _CONFINED):
        half = _loss(steps, prefix, "decode")
        yield _at_most(f"decode, 8b{_on(prefix)}: lost at depth 8192", half, 10, "%")
        quantized = _loss(steps, prefix, "quantized")
        what = f"the same with q8_0 KV{_on(prefix)}"
        if half is None:
            yield Target(what, _text(quantized, "%"), "≤ as with f16", None)
        else:
            yield _at_most(what, quantized, half, "%")


def _loss(steps: Steps, prefix: str, kind: str) -> float | None:
    found = [p for p in pairs(steps, prefix) if (p.kind, p.model) == (kind, "8b")]
    by_depth = {p.workload.get("depth"): p.on for p in found if p.on}
    deep = next((d for d in by_depth if d is not None and _NEARLY_DEEP <= d <= _DEEP), None)
    if 0 not in by_depth or deep is None:
        return None
    return 100 * (1 - by_depth[deep] / by_depth[0])


def _batches(steps: Steps) -> Iterator[Target]:
    for prefix, wanted in _BATCHES.items():
        for streams, limit in wanted.items():
            pair = _pair(steps, prefix, "batches", "8b", streams=streams)
            what = f"{streams} streams, 8b{_on(prefix)}: over llama.cpp's batches"
            yield _at_least(what, pair.ratio if pair else None, limit)


def _prefill(steps: Steps) -> Iterator[Target]:
    pair = _pair(steps, _CONFINED, "prefill", "8b", prompt_tokens=2048)
    what = f"prefill of 2048, 8b{_on(_CONFINED)}: hooks on over off"
    yield from _aim_and_floor(what, pair.ratio if pair else None, 1.8, 1.3)
    ratios = [
        p.ratio
        for prefix in (_WHOLE, _CONFINED)
        for p in pairs(steps, prefix)
        if p.figure == "prefill_tokens_per_s" and p.kind in ("prefill", "chunks") and p.ratio
    ]
    yield _at_least("prefill, the least anywhere", min(ratios, default=None), 1.0)


def _kernels(steps: Steps) -> Iterator[Target]:
    copies = result_of(steps, "bandwidth").get("copy_gb_s")
    whole = result_of(steps, "kernel_times").get("timings", [])
    for timing in large_ones(whole):
        part = None if copies is None else 100 * bytes_per_s(timing) / (copies * 1e9)
        yield _at_least(f"{timing['name']}: of the bandwidth of copies", part, 70, "%")
    if not whole:
        yield _at_least("large matrices: of the bandwidth of copies", None, 70, "%")
    confined = result_of(steps, f"{PROXY}.kernel_times")
    timings, device = confined.get("timings", []), confined.get("device", {})
    unit = "bytes/clock"
    for timing in large_ones(timings):
        what = f"{timing['name']}, proxy: by multiprocessor"
        yield _at_least(what, bytes_per_clock(timing, device), 15, unit)
    deep = [
        t for t in of_kind(timings, "attention", 1) if t["depth"] == _DEEP and t["type"] == "f16"
    ]
    for timing in chosen(deep).values():
        what = f"{timing['name']}, proxy: by multiprocessor"
        yield _at_least(what, bytes_per_clock(timing, device), 10, unit)
    if not timings:
        yield _at_least("large matrices, proxy: by multiprocessor", None, 15, unit)
    if not deep:
        yield _at_least("attention at depth 8192, proxy: by multiprocessor", None, 10, unit)


def _rightness(steps: Steps) -> Iterator[Target]:
    yield _errors(steps)
    yield _perplexity(result_of(steps, "perplexity"))
    yield _greedy(result_of(steps, "greedy"))


def _even(steps: Steps) -> Iterator[Target]:
    for shape in ("1b", "8b"):
        seen = result_of(steps, f"trace.{shape}")
        yield _at_most(f"GPU idle between steps, {shape}", seen.get("idle_us"), 20, "µs")
        back = seen.get("to_host_bytes_per_token")
        yield _at_most(f"bytes to the host by token, {shape}", back, 16, "B")
    for shape in ("1b", "8b"):
        seen = result_of(steps, f"growth.{shape}")
        for name, what, limit in (
            ("growth", "growth of TPOT to 512 tokens", 5),
            ("deviation", "standard deviation of TPOT", 3),
        ):
            value = None if seen.get(name) is None else 100 * seen[name]
            yield _at_most(f"{what}, {shape}", value, limit, "%")


def _pair(steps: Steps, prefix: str, kind: str, model: str, **workload: Any) -> Pair | None:
    """The one pair of this workload, or None."""
    found = (
        pair
        for pair in pairs(steps, prefix)
        if (pair.kind, pair.model) == (kind, model)
        and all(pair.workload.get(name) == value for name, value in workload.items())
    )
    return next(found, None)


def _on(prefix: str) -> str:
    return f", {PROXY}" if prefix else ""


def _text(value: float | None, unit: str, digits: int = 1) -> str:
    return "not measured" if value is None else f"{value:.{digits}f} {unit}"


def _at_most(what: str, value: float | None, limit: float, unit: str, digits: int = 1) -> Target:
    met = None if value is None else value <= limit
    return Target(what, _text(value, unit, digits), f"≤ {limit:.3g} {unit}", met)


def _at_least(what: str, value: float | None, limit: float, unit: str = "×") -> Target:
    met = None if value is None else value >= limit
    text = _text(value, unit, 3 if unit == "×" else 1)
    return Target(what, text, f"≥ {limit:.3g} {unit}", met)


def _aim_and_floor(what: str, value: float | None, aim: float, floor: float) -> Iterator[Target]:
    yield _at_least(f"{what} (aim)", value, aim)
    yield _at_least(f"{what} (floor)", value, floor)


def _errors(steps: Steps) -> Target:
    """What is no number is the worst; not met by some of the products, where others failed."""
    what = "error against float64 over stock's, the most"
    errors = result_of(steps, "errors").get("errors", [])
    if not errors:
        return _at_most(what, None, 1.1, "×")
    worst = max(errors, key=lambda error: (isnan(error["ratio"]), error["ratio"]))
    most = _at_most(f"{what} ({worst['name']})", worst["ratio"], 1.1, "×", digits=3)
    return replace(most, met=None) if most.met and steps["errors"]["status"] != "done" else most


def _perplexity(result: dict[str, Any]) -> Target:
    """Not known where chance, twice the deviation, may have made the difference too large."""
    what, wanted = "perplexity, hooks on and off: apart", "≤ 0.1 %"
    if not result:
        return Target(what, "not measured", wanted, None)
    apart, chance = 100 * abs(result["difference"]), 100 * (result["deviation"] or 0)
    value = f"{apart:.3f} ± {chance:.3f} % ({result['model']})"
    may_be_chance = apart > 0.1 >= apart - 2 * chance
    return Target(what, value, wanted, None if may_be_chance else apart <= 0.1)


def _greedy(result: dict[str, Any]) -> Target:
    what, wanted = "greedy text beside the CPU's", f"equal, or first apart within {TIE:g}"
    if not result:
        return Target(what, "not measured", wanted, None)
    value = f"{result['equal']} of {result['prompts']} equal"
    if apart := result["differences"]:
        value += f", apart by {max(one['gap'] for one in apart):.2g}"
    value += f" ({result['model']}; {result['stock']['equal']} with the hooks off)"
    return Target(what, value, wanted, result["agrees"])
