"""`orin-llm imatrix`: which inputs of a model's matrices matter, learned from a text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.imatrix_options import FILES, CollectOptions
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import flag
from orin_llm.cli.quality_options import calibration_corpus
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.quality.imatrix import Imatrix

REPORT = "Report"
_ROOM_BYTES = 8 << 20  # asked for before the work; 7 matrices in 32 layers of 4096 take 5 MB


@with_option_groups
def imatrix(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="Name in the store, what it was pulled by, or a path; none: only put the "
            "--in-file ones together.",
        ),
    ] = None,
    out: Annotated[
        Path,
        flag(
            "-o",
            "--output",
            "--output-file",  # --output alone would share its environment mirror with bench
            panel=FILES,
            metavar="FILE",
            help="The file to write.",
        ),
    ] = Path("imatrix.gguf"),
    in_files: Annotated[
        list[Path] | None,
        flag(
            "--in-file",
            panel=FILES,
            metavar="FILE",
            help="Add up with this importance matrix; may be repeated.",
        ),
    ] = None,
    resume: Annotated[bool, flag("--resume", panel=FILES, help="Go on with the file -o.")] = False,
    force: Annotated[bool, flag("--force", panel=FILES, help="Overwrite the file -o.")] = False,
    *,
    collect: CollectOptions,
    as_json: Annotated[bool, flag("--json", panel=REPORT, help="Print one JSON object.")] = False,
    quiet: Annotated[
        bool, flag("-q", "--quiet", panel=REPORT, help="No progress and no messages on stderr.")
    ] = False,
) -> None:
    """Collect an importance matrix, which makes quantizing lose less, in llama.cpp's format."""
    if model is None and not in_files:
        raise UsageError("name a model to collect on, or files to put together (--in-file)")
    if model is None and (collect.text is not None or resume):
        raise UsageError("--text and --resume need a model to collect on")
    if resume and in_files:
        raise UsageError("--resume goes on with the file -o, which has the --in-file ones in it")
    if resume and force:
        raise UsageError("--resume goes on with the file that --force would overwrite: choose one")
    if resume and not out.is_file():
        raise UsageError(f"there is no file {out} to go on with: leave --resume out")

    from orin_llm.models.output_file import require_new

    require_new(out, force=force or resume)
    if model is None:
        _merge(in_files or [], out, collect.ctx_size, force, as_json)
    else:
        _collect(model, out, in_files or [], resume, collect, as_json, quiet)


def _merge(
    files: list[Path], out: Path, window_tokens: int | None, force: bool, as_json: bool
) -> None:
    from orin_llm.cli.imatrix_view import print_merged
    from orin_llm.quality.imatrix_file import write_imatrix

    merged = _read(files, window_tokens)
    write_imatrix(out, merged, force=force)
    print_merged(merged, out, as_json=as_json)


def _read(files: list[Path], window_tokens: int | None) -> Imatrix:
    """What the files hold together, in windows of the first one's size if no other is asked for."""
    from orin_llm.quality.imatrix_file import read_imatrix
    from orin_llm.quality.imatrix_merge import merge
    from orin_llm.quality.windows import WINDOW_TOKENS

    parts = [(str(file), read_imatrix(file)) for file in files]
    sizes = (part.chunk_size for _, part in parts if part.chunk_size)
    return merge(parts, window_tokens or next(sizes, WINDOW_TOKENS))


def _collect(
    model: str,
    out: Path,
    in_files: list[Path],
    resume: bool,
    options: CollectOptions,
    as_json: bool,
    quiet: bool,
) -> None:
    from orin_llm.cli.imatrix_view import print_collected
    from orin_llm.cli.progress import load_progress, reporter
    from orin_llm.engine.config import EngineConfig, Hooks
    from orin_llm.engine.loaded_model import LoadedModel, read_model_header
    from orin_llm.engine.native_params import thread_count
    from orin_llm.gguf.split import files_there
    from orin_llm.host.disk import require_space
    from orin_llm.models.output_file import require_apart
    from orin_llm.models.store import resolve
    from orin_llm.quality.imatrix_collect import Job, collect
    from orin_llm.quality.imatrix_file import read_imatrix
    from orin_llm.quality.windows import LEAST_WINDOW, WINDOW_TOKENS, Windows

    found = read_imatrix(out) if resume else None
    before = _read(in_files, options.ctx_size) if in_files else None
    known = found or before
    window_tokens = options.ctx_size or (known.chunk_size if known else 0) or WINDOW_TOKENS
    if window_tokens < LEAST_WINDOW:
        raise UsageError(
            f"the files that are added to have windows of {window_tokens} tokens: say with -c how "
            f"many new ones have, {LEAST_WINDOW} or more"
        )
    config = EngineConfig(
        gpu_layers=options.gpu_layers, threads=options.threads, hooks=Hooks.none()
    )
    path = resolve(model)
    require_apart(out, files_there(path))
    require_space(out.parent, _ROOM_BYTES)
    corpus = calibration_corpus(options.text, options.encoding)
    with reporter(quiet) as report:
        header, progress = read_model_header(path), load_progress(path, report)
        loaded = LoadedModel(path, header, config, progress)
        windows = Windows.of_text(
            loaded, corpus.text, window_tokens, parse_special=options.parse_special
        )
        job = Job(
            windows,
            min(options.windows or len(windows), len(windows)),
            corpus.name,
            with_output=options.process_output,
            threads=thread_count(config),
            save_every=options.output_frequency,
        )
        begin = job.resume(loaded, out, found) if found else job.start(loaded, before)
        done = collect(loaded, job, begin, out, report)
    print_collected(done, loaded, out, as_json=as_json)
