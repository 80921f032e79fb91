"""What the benchmark's commands make of a report beside what they print: pictures, a comparison."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orin_llm.cli.bench_options import COMPARISON
from orin_llm.cli.options import flag
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.bench.result import R, Report

REPORT = "Repetitions and output"
_COMPARED = ("md", "json", "html")

FormatFlag = Annotated[
    str, flag("-o", "--output", panel=REPORT, metavar="[md|json|jsonl|csv|html]", help="Format.")
]
JsonFlag = Annotated[bool, flag("--json", panel=REPORT, help="The same as -o json.")]
QuietFlag = Annotated[bool, flag("-q", "--quiet", panel=REPORT, help="No progress on stderr.")]


@dataclass(frozen=True)
class ReportOptions:
    """Pictures, and an earlier report."""

    plot: Annotated[
        Path | None,
        flag(
            "--plot",
            panel=REPORT,
            metavar="DIR",
            help="Also write the pictures of -o html there, as PNG files.",
        ),
    ] = None
    vs: Annotated[
        Path | None,
        flag(
            "--vs",
            panel=COMPARISON,
            metavar="FILE",
            help="Compare with an earlier report (-o json, jsonl) of the same workloads.",
        ),
    ] = None

    def prepare(
        self, layout: str, workloads: Sequence[Mapping[str, object]], *, quiet: bool = False
    ) -> Callable[[Iterator[Report[R]]], Iterator[Report[R]]]:
        """Look at the flags before anything is measured; gives what the reports then pass through.

        Args:
            layout: a name of bench.report.FORMATS.
            workloads: settings of those that will be run.

        Raises:
            UsageError: a flag cannot be used, or has no place in the layout.
            OrinError: the folder cannot be written to, the earlier report is damaged, or there is
                nothing to draw with.
        """
        from orin_llm.bench.picture_files import require_folder
        from orin_llm.bench.result import Earlier
        from orin_llm.bench.result_file import read_results
        from orin_llm.bench.versus import require_common
        from orin_llm.plots.drawing import require_drawing

        if layout == "html" and sys.stdout.isatty():
            raise UsageError("-o html writes a page: send it to a file (… > report.html)")
        earlier = None
        if self.vs is not None:
            if layout not in _COMPARED:
                raise UsageError(f"--vs has no place in {layout}: use -o {', '.join(_COMPARED)}")
            earlier = Earlier(self.vs, read_results(self.vs))
            require_common(earlier, workloads)
        if self.plot is not None:
            require_folder(self.plot)
        if self.plot is not None or layout == "html":
            require_drawing()

        def passing(reports: Iterator[Report[R]]) -> Iterator[Report[R]]:
            finished: list[Report[R]] = []
            try:
                for report in reports:
                    finished.append(replace(report, earlier=earlier))
                    yield finished[-1]
            finally:  # of what there is, too, after an error or Ctrl-C
                if self.plot is not None and finished:
                    _draw(finished, self.plot, quiet=quiet)

        return passing


def _draw(reports: Sequence[Report[R]], folder: Path, *, quiet: bool) -> None:
    from orin_llm.bench.picture_files import write_pictures
    from orin_llm.bench.result import Report

    written = write_pictures(Report.joined(reports), folder)
    if not quiet:
        names = ", ".join(path.name for path in written)
        said = f"{folder}: {names}" if written else "there is nothing to draw of these results"
        print(f"pictures: {said}", file=sys.stderr, flush=True)
