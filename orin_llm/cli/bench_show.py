"""`orin-llm bench show FILE`: a report that was written before, in another form."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orin_llm.cli.bench_output import print_results
from orin_llm.cli.bench_report import REPORT, FormatFlag, JsonFlag, ReportOptions
from orin_llm.cli.layout import chosen_layout
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import flag
from orin_llm.errors import ResultFileError


@with_option_groups
def bench_show(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What bench wrote with -o json or jsonl.")
    ],
    *,
    extras: ReportOptions,
    output: FormatFlag = "md",
    as_json: JsonFlag = False,
    quiet: Annotated[bool, flag("-q", "--quiet", panel=REPORT, help="Nothing on stderr.")] = False,
) -> None:
    """Show a report that bench wrote before: nothing is measured, and no model is needed.

    So one run gives a file to compare with, a page with pictures, and tables; also elsewhere than
    where it was measured.
    """
    from orin_llm.bench.report import FORMATS
    from orin_llm.bench.result_file import read_results

    layout = chosen_layout(ctx, output, as_json, FORMATS)
    report = read_results(file)
    passing = extras.prepare(layout, [one.workload for one in report.results], quiet=quiet)
    try:
        print_results(passing(iter([report])), layout, 1)
    except (KeyError, TypeError) as error:  # settings may be anything, and tables want some of them
        raise ResultFileError(
            f"{file}: a part of it that the tables need is missing or damaged ({error}): show it "
            "with the version that wrote it"
        ) from error
