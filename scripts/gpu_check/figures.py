"""Reads the numbers of the report, and what they are held to, out of a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpu_check.greedy import TIE

Steps = dict[str, dict[str, Any]]
KINDS = {
    "decode": "decode_tokens_per_s",
    "prefill": "prefill_tokens_per_s",
    "concurrent": "output_tokens_per_s",
}


@dataclass(frozen=True)
class Pair:
    """One workload with the hooks on and off, taking turns: medians, and that of the ratios."""

    kind: str
    model: str
    label: str
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
            figure = KINDS[kind]
            yield Pair(
                kind,
                shape,
                on["label"],
                _median(on["figures"], figure),
                _median(off["figures"], figure),
                _median(off["speedup"], figure),
            )


def _median(spreads: dict[str, dict[str, float]], name: str) -> float | None:
    return spreads[name]["median"] if name in spreads else None


@dataclass(frozen=True)
class Target:
    """A number that is asked for; `met` is None where it was not measured."""

    what: str
    value: str
    wanted: str
    met: bool | None


def targets(steps: Steps) -> list[Target]:
    """All of them, in the order of their list."""
    found = [_decode_target(steps, "8b", 1.05), _decode_target(steps, "1b", 1.15)]
    for shape in ("1b", "8b"):
        seen = _result(steps, f"trace.{shape}")
        idle, back = seen.get("idle_us"), seen.get("to_host_bytes_per_token")
        found += [
            _at_most(f"GPU idle between steps, {shape}", idle, 20, "µs"),
            _at_most(f"bytes to the host by token, {shape}", back, 16, "B"),
        ]
    for shape in ("1b", "8b"):
        seen = _result(steps, f"growth.{shape}")
        growth, deviation = (
            None if seen.get(name) is None else 100 * seen[name] for name in ("growth", "deviation")
        )
        found += [
            _at_most(f"growth of TPOT to 512 tokens, {shape}", growth, 5, "%"),
            _at_most(f"standard deviation of TPOT, {shape}", deviation, 3, "%"),
        ]
    return [*found, _greedy_target(_result(steps, "greedy"))]


def _result(steps: Steps, name: str) -> dict[str, Any]:
    result: dict[str, Any] = steps.get(name, {}).get("result", {})
    return result


def _decode_target(steps: Steps, shape: str, wanted: float) -> Target:
    what = f"decode, hooks on over off, {shape}"
    first = next((p for p in pairs(steps) if (p.kind, p.model) == ("decode", shape)), None)
    if first is None or first.ratio is None:
        return Target(what, "not measured", f"≥ {wanted:.2f}", None)
    return Target(what, f"{first.ratio:.3f}", f"≥ {wanted:.2f}", first.ratio >= wanted)


def _at_most(what: str, value: float | None, limit: float, unit: str) -> Target:
    wanted = f"≤ {limit:g} {unit}"
    if value is None:
        return Target(what, "not measured", wanted, None)
    return Target(what, f"{value:.1f} {unit}", wanted, value <= limit)


def _greedy_target(result: dict[str, Any]) -> Target:
    what, wanted = "greedy text beside the CPU's", f"equal, or first apart within {TIE:g}"
    if not result:
        return Target(what, "not measured", wanted, None)
    value = f"{result['equal']} of {result['prompts']} equal"
    if apart := result["differences"]:
        value += f", apart by {max(one['gap'] for one in apart):.2g}"
    value += f" ({result['model']}; {result['stock']['equal']} with the hooks off)"
    return Target(what, value, wanted, result["agrees"])
