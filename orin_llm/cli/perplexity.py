"""`orin-llm perplexity`: how well a model foretells a text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import flag
from orin_llm.cli.window_options import REPORT, ComputeOptions, TextOptions
from orin_llm.models.names import DEFAULT_MODEL

if TYPE_CHECKING:
    from orin_llm.cli.progress import StderrReporter
    from orin_llm.quality.perplexity import Perplexity
    from orin_llm.quality.window_logits import WindowLogits
    from orin_llm.quality.windows import Windows


@with_option_groups
def perplexity(
    model: Annotated[
        str,
        typer.Argument(
            metavar="[MODEL]", help="Name in the store, what it was pulled by, or a path."
        ),
    ] = DEFAULT_MODEL,
    *,
    text: TextOptions,
    compute: ComputeOptions,
    save_logits: Annotated[
        Path | None,
        flag(
            "--save-logits",
            panel=REPORT,
            metavar="FILE",
            help="Write what `compare --logits` reads: 2 bytes for each token of the vocabulary at "
            "each position that counts.",
        ),
    ] = None,
    force: Annotated[
        bool, flag("--force", panel=REPORT, help="Overwrite the file of --save-logits.")
    ] = False,
    as_json: Annotated[bool, flag("--json", panel=REPORT, help="Print one JSON object.")] = False,
    quiet: Annotated[
        bool, flag("-q", "--quiet", panel=REPORT, help="No progress and no notes on stderr.")
    ] = False,
) -> None:
    """Perplexity of a model on a text, as llama.cpp's perplexity tool has it.

    The text is cut into windows, of which the second half counts. Lower is better.
    """
    from orin_llm.cli.json_output import print_json
    from orin_llm.cli.progress import reporter
    from orin_llm.cli.quality_load import open_model
    from orin_llm.cli.quality_view import perplexity_json, print_perplexity
    from orin_llm.gguf.split import files_there
    from orin_llm.models.output_file import require_apart, require_new
    from orin_llm.models.store import resolve
    from orin_llm.quality.windows import Windows

    config = compute.config(text.ctx_size, model, quiet=quiet)
    corpus = text.corpus()
    path = resolve(model)
    if save_logits is not None:
        require_new(save_logits, force=force)
        require_apart(save_logits, files_there(path))
    with (
        reporter(quiet) as report,
        open_model(path, config, report, quiet=quiet) as opened,
    ):
        windows = Windows.of_text(opened.loaded, corpus.text, text.ctx_size, text.windows)
        found = _measure(opened, windows, compute.decode, save_logits, force, report)
        said = perplexity_json(found, opened.describe(), windows, corpus, one_by_one=compute.decode)
    if as_json:
        print_json(said)
    else:
        print_perplexity(said)


def _measure(
    model: WindowLogits,
    windows: Windows,
    one_by_one: bool,
    save_logits: Path | None,
    force: bool,
    report: StderrReporter,
) -> Perplexity:
    from orin_llm.host import disk
    from orin_llm.models.output_file import new_file
    from orin_llm.models.reporter import Progress
    from orin_llm.quality.base_logits import BaseLogitsWriter, file_bytes
    from orin_llm.quality.perplexity import perplexity

    def on_window(done: int) -> None:
        report.progress(Progress("perplexity", done, len(windows), "windows"))

    on_window(0)
    if save_logits is None:
        return perplexity(model, windows, one_by_one=one_by_one, on_window=on_window)
    with new_file(save_logits, force=force) as part, part.open("wb") as file:
        disk.require_space(part.parent, file_bytes(windows, model.loaded.n_vocab))
        writer = BaseLogitsWriter(file, windows, model.loaded.n_vocab)
        return perplexity(model, windows, one_by_one=one_by_one, save=writer, on_window=on_window)
