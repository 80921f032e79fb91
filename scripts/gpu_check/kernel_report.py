"""The tables of kernels: times, rates, which form wins where, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_check.figures import Steps, path_choices, result_of
from gpu_check.kernel_figures import (
    Timing,
    bytes_per_clock,
    bytes_per_s,
    choices_text,
    chosen,
    of_kind,
    seconds,
    tflops,
)
from gpu_check.steps import SHAPES
from gpu_check.tables import table

Found = dict[str, Any]
_NONE = "–"


def kernel_tables(steps: Steps, proxy: str) -> Iterator[str]:
    """What there is of them. `proxy` is what names of steps on the proxy begin with."""
    whole, confined = (result_of(steps, f"{prefix}kernel_times") for prefix in ("", proxy))
    copies = result_of(steps, "bandwidth").get("copy_gb_s")
    if whole or confined:
        yield _single(whole, confined, copies)
        yield _many(whole, confined)
        yield _rows(whole, confined)
        yield _attention(whole, confined)
        yield from _choices(whole, confined)
    for where, prefix in (("the whole GPU", ""), ("the proxy", proxy)):
        for shape in SHAPES:
            if found := path_choices(steps, prefix, shape):
                yield f"Prompts, {shape} on {where}: `--kernels {choices_text(found)}`."
    if errors := result_of(steps, "errors").get("errors"):
        rows = [
            (one["name"], f"{one['ours']:.2e}", f"{one['stock']:.2e}", f"{one['ratio']:.3f}")
            for one in errors
        ]
        yield table(("product: error against float64", "ours", "llama.cpp's", "ratio"), rows)


def _best(found: Found, kind: str, n_tokens: int | None = None) -> dict[tuple[str, int], Timing]:
    timings = of_kind(found.get("timings", []), kind, n_tokens)
    return chosen(timings, lambda timing: (timing["name"], timing["tokens"]))


def _single(whole: Found, confined: Found, copies: float | None) -> str:
    """One token: how fast weights are read."""
    here, there = _best(whole, "vector", 1), _best(confined, "vector", 1)
    rows = []
    for key in dict.fromkeys([*here, *there]):
        row = [key[0], *[_NONE] * 6]
        if key in here:
            best = here[key]
            rate = bytes_per_s(best)
            row[1:5] = [
                f"{best['bytes'] / 1e6:.1f}",
                f"{1e6 * seconds(best):.1f}",
                f"{rate / 1e12:.2f}",
                _NONE if copies is None else f"{100 * rate / (copies * 1e9):.0f} %",
            ]
        if key in there:
            best = there[key]
            row[5] = f"{1e6 * seconds(best):.1f}"
            row[6] = f"{bytes_per_clock(best, confined['device']):.1f}"
        best = here.get(key) or there[key]
        rows.append([*row, f"{best['rows_used']}, {best['splits_used']}"])
    header = (
        "matrix times one token", "MB", "µs", "TB/s", "of copies", "proxy: µs",
        "bytes a clock and multiprocessor", "rows a warp, splits",
    )  # fmt: skip
    return table(header, rows)


def _many(whole: Found, confined: Found) -> str:
    """More tokens: the times of both forms."""
    rows = []
    best = [
        {form: _best(found, form) for form in ("vector", "product")} for found in (whole, confined)
    ]
    keys = dict.fromkeys(key for forms in best for times in forms.values() for key in times)
    for key in keys:
        row = [f"{key[0]}, {key[1]}"]
        for forms in best:
            row += [
                f"{1e6 * seconds(forms[form][key]):.1f}" if key in forms[form] else _NONE
                for form in ("vector", "product")
            ]
            product = forms["product"].get(key)
            row.append(_NONE if product is None else f"{tflops(product):.1f}")
        rows.append(row)
    header = (
        "matrix, tokens", "vector µs", "product µs", "TFLOP/s",
        "proxy: vector µs", "product µs", "TFLOP/s",
    )  # fmt: skip
    return table(header, rows)


def _rows(whole: Found, confined: Found) -> str:
    times = [
        {(t["name"], t["type"]): t for t in of_kind(found.get("timings", []), "rows")}
        for found in (whole, confined)
    ]
    rows = [
        [
            f"{key[0]}, {key[1]}",
            *(f"{1e6 * seconds(found[key]):.1f}" if key in found else _NONE for found in times),
        ]
        for key in dict.fromkeys([*times[0], *times[1]])
    ]
    return table(("norm and rows: tokens × values, format", "µs", "proxy: µs"), rows)


def _attention(whole: Found, confined: Found) -> str:
    rows = []
    kinds = ("attention", "prompt")
    times = [
        {
            (t["name"], t["form"]): t
            for kind in kinds
            for t in of_kind(found.get("timings", []), kind)
        }
        for found in (whole, confined)
    ]
    for key in dict.fromkeys([*times[0], *times[1]]):
        row = [f"{key[0]}, {key[1]}"]
        for timings, found in zip(times, (whole, confined), strict=True):
            timing = timings.get(key)
            if timing is None:
                row += [_NONE] * 3
            else:
                clocks = bytes_per_clock(timing, found["device"])
                row += [f"{1e6 * seconds(timing):.1f}", f"{clocks:.1f}", f"{tflops(timing):.2f}"]
        rows.append(row)
    rates = ("µs", "bytes a clock and multiprocessor", "TFLOP/s")
    return table(("attention, form", *rates, *(f"proxy: {rate}" for rate in rates)), rows)


def _choices(whole: Found, confined: Found) -> Iterator[str]:
    for where, found in (("the whole GPU", whole), ("the proxy", confined)):
        if text := found.get("choices"):
            yield f"Fastest on {where}, as these times have it: `--kernels {text}`."
