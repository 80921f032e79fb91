"""What the benchmark's commands print: results in a format, and what of them went wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from orin_llm.cli.render import tolerate_narrow_encoding
from orin_llm.errors import OrinError
from orin_llm.host.units import counted

if TYPE_CHECKING:
    from orin_llm.bench.result import R, Report, Result


def print_results(reports: Iterator[Report[R]], layout: str, n_workloads: int) -> tuple[R, ...]:
    """JSON lines as soon as they are there; else all at the end, also where that is an error.

    Ctrl-C, too, loses nothing but a JSON object, whose reader would take it for the whole; stderr
    says how much of `n_workloads` is there.
    """
    from orin_llm.bench.report import FORMATS
    from orin_llm.bench.result import Report

    tolerate_narrow_encoding(sys.stdout)
    finished: list[Report[R]] = []
    at_once = layout == "jsonl"
    interrupted = False
    try:
        for report in reports:
            finished.append(report)
            if at_once:
                print(FORMATS[layout](report), end="", flush=True)
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        wanted = not (interrupted and layout == "json")
        if finished and wanted and not at_once:
            print(FORMATS[layout](Report.joined(finished)), end="", flush=True)
        if interrupted:
            what = f"{len(finished)} of {n_workloads} workloads are" if wanted else "nothing is"
            cut = wanted and any(report.cut_short for report in finished)
            part = ", the last with fewer repetitions" if cut else ""
            print(f"interrupted: {what} printed{part}", file=sys.stderr, flush=True)
    return Report.joined(finished).results


def require_none_failed(results: Sequence[Result]) -> None:
    """Raise OrinError where requests failed, with the first reason."""
    failed = sum(result.failed for result in results)
    if failed:
        error = next(error for result in results for error in result.errors)
        raise OrinError(f"{counted(failed, 'request')} failed: {error}")
