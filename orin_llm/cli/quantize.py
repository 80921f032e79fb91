"""`orin-llm quantize`: a model file with fewer bits a weight."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.json_output import print_json
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.models.quantize_plan import Importance

MIX, WORK, OUTPUT = "Types", "Work", "Output"


def quantize(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC", help="The model: a name in the store, or a GGUF file (F16, BF16, F32)."
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="DST", help="The file to write.")],
    file_type: Annotated[
        str,
        typer.Argument(metavar="TYPE", help="Q4_K_M, Q5_K_M, Q6_K, Q8_0, Q4_0, IQ4_XS, … or F16."),
    ],
    imatrix: Annotated[
        str | None,
        typer.Option(
            "--imatrix",
            rich_help_panel=MIX,
            metavar="FILE",
            help="Importance matrix: which inputs matter more.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            rich_help_panel=MIX,
            metavar="NAME=TYPE",
            help="Give tensors a type: output=Q8_0, token_embd=F16, attn_v=Q6_K (a part of the "
            "name, or a regular expression). May be repeated; the first that matches wins.",
        ),
    ] = None,
    pure: Annotated[
        bool, typer.Option("--pure", rich_help_panel=MIX, help="One type for all matrices.")
    ] = False,
    allow_requantize: Annotated[
        bool,
        typer.Option(
            "--allow-requantize",
            rich_help_panel=MIX,
            help="Also from a quantized model, which costs quality twice.",
        ),
    ] = False,
    threads: Annotated[
        int,
        typer.Option("-t", "--threads", rich_help_panel=WORK, min=0, help="CPU threads; 0: all."),
    ] = 0,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", rich_help_panel=WORK, help="Say what would be, write nothing."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", rich_help_panel=WORK, help="Overwrite the file.")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", rich_help_panel=OUTPUT, help="No messages, no progress."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print one JSON object.")
    ] = False,
) -> None:
    """Write a model with fewer bits a weight, as llama.cpp's own tool does."""
    from orin_llm.models.quantize_keep import Keep
    from orin_llm.models.quantize_types import file_type_named

    kind, kept = file_type_named(file_type), Keep.parse(keep or [])  # before anything is read

    from orin_llm.cli import quantize_view as view
    from orin_llm.cli.progress import reporter
    from orin_llm.models.quantize import check_place, check_room, write
    from orin_llm.models.quantize_plan import Request, make_plan
    from orin_llm.models.quantize_report import to_json
    from orin_llm.models.store import resolve

    plan = make_plan(
        Request(
            resolve(source),
            kind,
            kept,
            pure=pure,
            allow_requantize=allow_requantize,
            importance=None if imatrix is None else _importance(imatrix),
        )
    )
    check_place(plan, out, force=force)
    if not quiet:
        print(view.estimate(plan, out), file=sys.stderr, flush=True)
    check_room(plan, out)
    done = None
    if not dry_run:
        with reporter(quiet) as report:
            done = write(plan, out, threads=threads, force=force, reporter=report)
    if as_json:
        print_json(to_json(plan, done))
    else:
        view.print_report(plan, done)


def _importance(file: str) -> Importance:
    """Raises UsageError where there is no such file, ModelFileError for one that is damaged."""
    from orin_llm.models.quantize_plan import Importance
    from orin_llm.quality.imatrix_file import read_imatrix

    if not Path(file).is_file():
        raise UsageError(f"--imatrix {file}: there is no such file")
    imatrix = read_imatrix(Path(file))
    return Importance(
        file=file,
        weights=imatrix.weights(),
        dataset=imatrix.datasets[0] if imatrix.datasets else "",
        chunks=imatrix.chunk_count,
    )
