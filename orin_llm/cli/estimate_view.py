"""What `orin-llm estimate` prints for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orin_llm.cli.models_view import fit_lines
from orin_llm.cli.paragraphs import print_paragraph
from orin_llm.cli.table import print_table
from orin_llm.estimate.estimate import Estimate, Point
from orin_llm.estimate.published import Implied
from orin_llm.host.units import size_text

_NOT_COUNTED = (
    "Not counted: kernel launches, norms, sampling, tokenization, throttling, other users of the "
    "memory. Measure with `orin-llm bench`."
)
_LABEL_CELLS = 11
_LIMITS = {"memory": "memory", "arithmetic": "arithmetic", "multiprocessors": "SMs"}
_SMALL_BYTES = 1_000_000_000  # read for a token; below, launches take as long as the reading


def print_estimate(found: Estimate) -> None:
    """The table, what it was worked out from, and the memory."""
    board = found.target.module.name
    print_paragraph(f"ESTIMATE of {found.path.name} on a {board}: worked out, not measured")
    print()
    heads = ["MODE", "DEPTH", "TTFT ms", "floor", "TPOT ms", "floor", "tok/s", "LIMITED BY"]
    _print_aligned(heads, [_row(point) for point in found.points])
    print()
    print_paragraph(
        "floor: with the data sheet's rates in full. Limited by: what limits prefill, decode."
    )
    if min(work.bytes for work in found.decode.values()) < _SMALL_BYTES:
        print_paragraph(
            "Too fast to be true: so small a model is limited by kernel launches, not counted."
        )
    print()
    for label, text in _basis(found):
        print_paragraph(text, label, _LABEL_CELLS)
    print_paragraph(_NOT_COUNTED)
    print()
    for line in fit_lines(found.fit):
        print(line)


def _row(point: Point) -> list[str]:
    return [
        point.rates.mode,
        str(point.depth),
        _ms(point.ttft.ms),
        _ms(point.ttft_floor_ms),
        _ms(point.tpot.ms),
        _ms(point.tpot_floor_ms),
        f"{1e3 / point.tpot.ms:.1f}",
        f"{_LIMITS[point.ttft.limit]}, {_LIMITS[point.tpot.limit]}",
    ]


def _ms(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _basis(found: Estimate) -> Iterator[tuple[str, str]]:
    factors = found.factors
    for rates in found.target.modes:
        yield (
            rates.mode,
            f"{rates.sm_count} SMs at {rates.gpu_mhz:g} MHz: {rates.tflops:.1f} TFLOP/s f16; "
            f"memory at {rates.emc_mhz:g} MHz: {rates.bandwidth_gb_s:.1f} GB/s",
        )
    yield (
        "used",
        f"{factors.bandwidth:.0%} of the bandwidth, {factors.compute:.0%} of the f16 products in "
        f"prefill, {factors.bytes_per_clock:g} bytes a clock and multiprocessor (SM) at decode "
        "(--check shows others' results)",
    )
    for depth, work in found.decode.items():
        yield (
            f"at {depth}",
            f"prompt {found.prefill_flops[depth] / 1e12:.3g} TFLOP; the next token reads "
            f"{size_text(work.bytes)}, {work.flops / 1e9:.3g} GFLOP",
        )


def print_check(results: Sequence[Implied]) -> None:
    """Published results, and the efficiencies that explain them."""
    print("What results published for the AGX Orin come to, by the counts of this command")
    print()
    rows = [
        [
            result.published.program,
            result.published.shape.title,
            result.published.mode,
            str(result.published.prompt_tokens or "?"),
            f"{result.published.ttft_ms:.0f}" if result.published.ttft_ms else "",
            f"{result.published.decode_tokens_per_s:g}",
            f"{result.bandwidth:.0%}",
            f"{result.bytes_per_clock:.1f}",
            "" if result.compute is None else f"{result.compute:.0%}",
            result.published.source,
        ]
        for result in results
    ]
    heads = ["PROGRAM", "MODEL", "MODE", "PROMPT", "TTFT ms", "tok/s", "BANDWIDTH", "BYTES/CLOCK"]
    _print_aligned([*heads, "COMPUTE", "SOURCE"], rows)
    print()
    print("Above 100 % a result cannot be of f16 products, or is not what it was published as.")


def _print_aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table whose columns of numbers, those between the first and the last, are to the right."""
    widths = [max(len(row[c]) for row in [heads, *rows]) for c in range(len(heads))]
    text = {c for c in range(len(heads)) if any(row[c][:1].isalpha() for row in rows)}

    def padded(row: Sequence[str]) -> list[str]:
        return [cell if c in text else cell.rjust(widths[c]) for c, cell in enumerate(row)]

    print_table(padded(heads), [padded(row) for row in rows])
