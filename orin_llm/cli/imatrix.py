"""`orin-llm imatrix`: which inputs of a model's matrices matter, learned from a text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orin_llm.cli.quality_options import TEXT, EncodingFlag, TextFlag, calibration_corpus
from orin_llm.errors import UsageError

WORK, OUTPUT = "Work", "Output"
WINDOW_TOKENS = 512


def imatrix(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="Name in the store, hf:owner/repo:QUANT, or a GGUF file; none: only put the "
            "--in-file ones together.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("-o", "--output", rich_help_panel=OUTPUT, help="The file to write.")
    ] = Path("imatrix.gguf"),
    text: TextFlag = None,
    encoding: EncodingFlag = None,
    parse_special: Annotated[
        bool,
        typer.Option(
            "--parse-special",
            rich_help_panel=TEXT,
            help="Read control tokens written in the text, such as <|im_start|>, as those tokens.",
        ),
    ] = False,
    ctx_size: Annotated[
        int | None,
        typer.Option(
            "-c",
            "--ctx-size",
            rich_help_panel=TEXT,
            min=16,
            help="Tokens in a window of text; if not given, as in the files to go on with, or 512.",
        ),
    ] = None,
    chunks: Annotated[
        int | None,
        typer.Option("--chunks", rich_help_panel=TEXT, min=1, help="Windows to read at most."),
    ] = None,
    in_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--in-file",
            rich_help_panel=WORK,
            metavar="FILE",
            help="Add up with this importance matrix; may be repeated.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", rich_help_panel=WORK, help="Go on with the file -o."),
    ] = False,
    process_output: Annotated[
        bool,
        typer.Option(
            "--process-output", rich_help_panel=WORK, help="Of the output matrix, too (not useful)."
        ),
    ] = False,
    output_frequency: Annotated[
        int,
        typer.Option(
            "--output-frequency",
            "-ofreq",
            rich_help_panel=WORK,
            min=1,
            help="Save after every so many windows.",
        ),
    ] = 10,
    threads: Annotated[
        int,
        typer.Option(
            "-t",
            "--threads",
            rich_help_panel=WORK,
            min=0,
            help="CPU threads; 0: the physical cores it may use.",
        ),
    ] = 0,
    gpu_layers: Annotated[
        int,
        typer.Option(
            "-ngl",
            "--gpu-layers",
            rich_help_panel=WORK,
            min=-1,
            help="Layers kept on the GPU; -1: all, 0: no GPU.",
        ),
    ] = -1,
    force: Annotated[
        bool, typer.Option("--force", rich_help_panel=OUTPUT, help="Overwrite the file.")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", rich_help_panel=OUTPUT, help="No messages, no progress."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print one JSON object.")
    ] = False,
) -> None:
    """Collect an importance matrix, which makes quantizing lose less, in llama.cpp's format."""
    if model is None and not in_files:
        raise UsageError("name a model to collect on, or files to put together (--in-file)")
    if model is None and (text is not None or resume):
        raise UsageError("--text and --resume need a model to collect on")
    if resume and in_files:
        raise UsageError("--resume goes on with the file -o, which has the --in-file ones in it")
    if resume and force:
        raise UsageError("--resume goes on with the file that --force would overwrite: choose one")
    if resume and not out.is_file():
        raise UsageError(f"there is no file {out} to go on with: leave --resume out")

    from orin_llm.cli import imatrix_view as view
    from orin_llm.models.output_file import require_new
    from orin_llm.quality.imatrix_file import read_imatrix, write_imatrix
    from orin_llm.quality.imatrix_merge import merge

    require_new(out, force=force or resume)
    files = [out] if resume else in_files or []
    parts = [(str(file), read_imatrix(file)) for file in files]
    sizes = (part.chunk_size for _, part in parts if part.chunk_size)
    window_tokens = ctx_size or next(sizes, WINDOW_TOKENS)
    before = merge(parts, window_tokens) if in_files else None
    if model is None:
        assert before is not None
        write_imatrix(out, before, force=force)
        view.print_merged(before, out, as_json=as_json)
        return

    from orin_llm.cli.progress import reporter
    from orin_llm.engine.config import EngineConfig, Hooks
    from orin_llm.engine.loaded_model import LoadedModel, read_model_header
    from orin_llm.host.cpu import read_cpu
    from orin_llm.models.reporter import Progress
    from orin_llm.models.store import resolve
    from orin_llm.quality.imatrix_collect import Job, collect
    from orin_llm.quality.windows import Windows

    path = resolve(model)
    corpus = calibration_corpus(text, encoding)
    config = EngineConfig(gpu_layers=gpu_layers, hooks=Hooks.none())
    with reporter(quiet) as report:
        loaded = LoadedModel(
            path,
            read_model_header(path),
            config,
            lambda load: report.progress(Progress(path.name, load.bytes_done, load.bytes_total)),
        )
        windows = Windows.of_text(loaded, corpus.text, window_tokens, parse_special=parse_special)
        job = Job(
            windows,
            min(chunks or len(windows), len(windows)),
            corpus.name,
            with_output=process_output,
            threads=threads or read_cpu().threads,
            save_every=output_frequency,
        )
        begin = job.resume(loaded, out, parts[0][1]) if resume else job.start(loaded, before)
        done = collect(loaded, job, begin, out, report)
    view.print_collected(done, loaded, out, as_json=as_json)
