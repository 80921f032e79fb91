"""`orin-llm trace summarize`: an export of Nsight Systems, by phase."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.numbers import time_text
from orin_llm.cli.options import flag
from orin_llm.host.units import counted, size_text

if TYPE_CHECKING:
    from orin_llm.trace.nsys_summary import Gaps, Named, Phase, Summary

OUTPUT = "Output"
_NAME_CELLS = 60


def summarize(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.sqlite", help="What nsys export --type=sqlite wrote.")
    ],
    *,
    top: Annotated[
        int, flag("--top", panel=OUTPUT, min=1, help="Kernels to list of each phase.")
    ] = 10,
    as_json: Annotated[
        bool, flag("--json", panel=OUTPUT, help="Print one JSON object, with all kernels.")
    ] = False,
) -> None:
    """Sum up what Nsight Systems recorded, by phase: kernels by time, gaps, copies.

    Work counts for the phase of the step that launched it.
    """
    print_export(file, top=top, as_json=as_json)


def print_export(file: Path, *, top: int, as_json: bool) -> None:
    """Read and print an export."""
    from orin_llm.cli.json_output import print_json
    from orin_llm.trace.nsys_export import read_export
    from orin_llm.trace.nsys_summary import summarize as sum_up

    summary = sum_up(read_export(file))
    if as_json:
        print_json(summary.to_json())
    else:
        _print(summary, top)


def _print(summary: Summary, top: int) -> None:
    from orin_llm.cli.quality_view import print_facts
    from orin_llm.cli.table import print_table

    heads = ("PHASE", "STEPS", "GPU BUSY", "KERNELS", "COPIES", "GAPS", "LONGEST GAP")
    print_table(heads, [_phase_cells(phase) for phase in summary.phases])
    for phase in summary.phases:
        for title, named in (("kernels", phase.kernels), ("copies", phase.copies)):
            if named:
                print(f"\n{phase.name}: {title}, {_listed(len(named), top)}")
                print_table(*_table(named[:top], sum(one.total_ms for one in named)))
    print()
    facts = [
        (
            "GPU",
            f"busy {time_text(summary.busy_ms)} of {time_text(summary.span_ms)}; between "
            f"phases {_gaps_text(summary.between)}",
        )
    ]
    if not summary.by_launch:
        facts.append(
            ("note", "the export has no CUDA calls: phases are those of the time of the work")
        )
    print_facts(facts)


def _phase_cells(phase: Phase) -> tuple[str, ...]:
    copies = sum(one.total_ms for one in phase.copies)
    return (
        phase.name,
        str(phase.steps),
        time_text(phase.busy_ms),
        time_text(phase.kernels_ms),
        time_text(copies),
        f"{phase.gaps.count}: {time_text(phase.gaps.total_ms)}",
        time_text(phase.gaps.longest_ms),
    )


def _table(
    named: tuple[Named, ...], all_ms: float
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    heads = ("TIME", "SHARE", "CALLS", "LONGEST", "BYTES", "NAME")
    rows: list[tuple[str, ...]] = [
        (
            time_text(one.total_ms),
            f"{100 * one.total_ms / all_ms:.1f} %" if all_ms else "",
            str(one.count),
            time_text(one.longest_ms),
            size_text(one.copied_bytes) if one.copied_bytes else "",
            _short(one.name),
        )
        for one in named
    ]
    return heads, rows


def _listed(n: int, top: int) -> str:
    return f"those with the most time of {n}" if n > top else "all by time"


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CELLS else name[: _NAME_CELLS - 1] + "…"


def _gaps_text(gaps: Gaps) -> str:
    return f"{counted(gaps.count, 'gap')}, {time_text(gaps.total_ms)}"
