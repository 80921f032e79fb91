"""`orin-llm compare`: how far a model is from a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import flag
from orin_llm.cli.window_options import REPORT, ComputeOptions, ReferenceOptions, TextOptions
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from orin_llm.quality.base_logits import BaseLogits
    from orin_llm.quality.compare import Side
    from orin_llm.quality.texts import Corpus

FORMATS = ("text", "md")


@with_option_groups
def compare(
    ctx: typer.Context,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE", help="Name in the store, what it was pulled by, or a path."
        ),
    ],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="The same; the reference's file, computed otherwise, if not given.",
            show_default=False,
        ),
    ] = None,
    *,
    text: TextOptions,
    compute: ComputeOptions,
    ref: ReferenceOptions,
    form: Annotated[
        str, flag("--format", panel=REPORT, metavar="[text|md]", help="md: a row of a table.")
    ] = "text",
    as_json: Annotated[bool, flag("--json", panel=REPORT, help="Print one JSON object.")] = False,
    quiet: Annotated[
        bool, flag("-q", "--quiet", panel=REPORT, help="No progress and no notes on stderr.")
    ] = False,
) -> None:
    """Compare a model with a reference: perplexity, KL divergence, likeliest tokens, logits.

    With --logits FILE there is one model, and the file is the reference.

    --kv-type and --hooks are the model's; the reference has --ref-kv-type and --ref-hooks.
    """
    from orin_llm.cli.comparison_view import comparison_json, print_comparison, print_markdown
    from orin_llm.cli.json_output import print_json
    from orin_llm.cli.progress import reporter
    from orin_llm.cli.quality_load import open_model
    from orin_llm.models.reporter import Progress
    from orin_llm.quality.compare import compare_models

    if form not in FORMATS:
        raise UsageError(f"no format {form!r}: choose one of {', '.join(FORMATS)}, or --json")
    corpus: Corpus | None = None
    source: BaseLogits | Side
    if ref.logits is None:
        corpus = text.corpus()
        source, ours = _two_sides(reference, model, text.ctx_size, compute, ref, quiet)
    else:
        if model is not None:
            raise UsageError("--logits is the reference: name one model, not two")
        _refuse_given(ctx, ("text", "encoding", "ctx_size"), "the file of --logits brings its own")
        _refuse_given(ctx, ("ref_kv_type", "ref_hooks", "ref_gpu_layers"), "--logits is as it is")
        source, ours = _file_and_side(ref.logits, reference, compute, quiet)
    with reporter(quiet) as report:
        found = compare_models(
            source,
            ours,
            None if corpus is None else corpus.text,
            most=text.windows,
            one_by_one=compute.decode,
            on_window=lambda done, total: report.progress(
                Progress("comparing", done, total, "windows")
            ),
            opener=lambda side, beside: open_model(
                side.path, side.config, report, quiet=quiet, beside=beside
            ),
        )
    said = comparison_json(found, corpus, one_by_one=compute.decode)
    if as_json:
        print_json(said)
    elif form == "md":
        print_markdown(said)
    else:
        print_comparison(said)


def _two_sides(
    reference: str,
    model: str | None,
    ctx_size: int,
    compute: ComputeOptions,
    ref: ReferenceOptions,
    quiet: bool,
) -> tuple[Side, Side]:
    """The reference and the model; UsageError where they are the same."""
    from orin_llm.models.store import resolve
    from orin_llm.quality.compare import Side

    source = Side(resolve(reference), compute.reference_config(ctx_size, ref))
    name = reference if model is None else model
    ours = Side(resolve(name), compute.config(ctx_size, name, quiet=quiet))
    if source == ours:
        raise UsageError(
            "the model and the reference are the same: name another model, or say what is "
            "different (--kv-type, --ref-kv-type, --hooks, --ref-hooks, --ref-gpu-layers)"
        )
    return source, ours


def _file_and_side(
    logits: Path, model: str, compute: ComputeOptions, quiet: bool
) -> tuple[BaseLogits, Side]:
    """The same, of a file in place of the reference, which says how long windows are."""
    from orin_llm.models.store import resolve
    from orin_llm.quality.base_logits import BaseLogits
    from orin_llm.quality.compare import Side

    base = BaseLogits.read(logits)
    return base, Side(resolve(model), compute.config(base.tokens.shape[1], model, quiet=quiet))


def _refuse_given(ctx: typer.Context, names: tuple[str, ...], why: str) -> None:
    """UsageError where one of these flags is on the command line."""
    for name in names:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            flag_name = "--" + name.replace("_", "-")
            raise UsageError(f"{flag_name} has no use here: {why}")
