"""`orin-llm accept`: the check before delivery."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.accept_options import LimitOptions, QualityOptions
from orin_llm.cli.errors import INTERRUPTED
from orin_llm.cli.layout import chosen_layout
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import EngineOptions, flag
from orin_llm.cli.root_option import Root
from orin_llm.errors import OrinError, UsageError

if TYPE_CHECKING:
    from orin_llm.accept.evidence import Evidence
    from orin_llm.accept.outcome import Outcome
    from orin_llm.accept.plan import Plan
    from orin_llm.accept.result import Acceptance
    from orin_llm.cli.progress import StderrReporter

WHAT, REPORT = "What to check", "Report"
LAYOUTS = ("text", "md", "json", "junit")


@with_option_groups
def accept(
    ctx: typer.Context,
    named: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]", help="The same as -m: name in the store, or a GGUF file."
        ),
    ] = None,
    *,
    engine: EngineOptions,
    only: Annotated[
        str | None,
        # No environment mirror: other commands mean other things by it.
        typer.Option(
            "--only",
            rich_help_panel=WHAT,
            metavar="1,4",
            help="These indicators; all if not given.",
        ),
    ] = None,
    allow_unmeasured: Annotated[
        bool,
        flag(
            "--allow-unmeasured",
            panel=WHAT,
            help="Accept without what cannot be measured or has no limit here.",
        ),
    ] = False,
    limits: LimitOptions,
    quality: QualityOptions,
    output: Annotated[
        str, flag("-o", "--output", panel=REPORT, metavar="[text|md|json|junit]", help="Format.")
    ] = "text",
    as_json: Annotated[bool, flag("--json", panel=REPORT, help="The same as -o json.")] = False,
    evidence: Annotated[
        Path | None,
        flag(
            "--evidence",
            panel=REPORT,
            metavar="DIR",
            help="A folder for what was measured, and the report in every format.",
        ),
    ] = None,
    force: Annotated[
        bool, flag("--force", panel=REPORT, help="Write over what is in the folder of --evidence.")
    ] = False,
    quiet: Annotated[
        bool, flag("-q", "--quiet", panel=REPORT, help="No progress and no notes on stderr.")
    ] = False,
    root: Root = Path("/"),
) -> None:
    """Check a model on this machine before delivery, by seven indicators with limits.

    1 ttft: its deviation. 2 growth: of TPOT with the answer. 3 load: GPU in prefill, memory.
    4 pages: hit rate. 5 rope: look-ups out of bounds. 6 perplexity: over an unquantized model's.
    7 throughput: requests a second. What cannot be measured here never passes.

    Exit code 0: accepted; 1: an indicator failed; 4: none did, but one was not measured or judged.
    """
    from orin_llm.accept.evidence import Evidence
    from orin_llm.cli.progress import reporter

    layout = chosen_layout(ctx, output, as_json, LAYOUTS)
    plan = _plan(_of_model(engine, named), only, limits, quality, quiet, root)
    folder = None if evidence is None else Evidence(evidence, force=force)
    with reporter(quiet) as report:
        acceptance = _run(plan, folder, allow_unmeasured, report, quiet)
    if folder is not None:  # before anything that a closed pipe could end
        folder.finish(acceptance)
    _print(acceptance, layout)
    if folder is not None and folder.problem:
        raise OrinError(f"not all evidence is there: {folder.problem}")
    if code := INTERRUPTED if acceptance.interrupted else acceptance.exit_code:
        raise typer.Exit(code)


def _of_model(engine: EngineOptions, model: str | None) -> EngineOptions:
    """The options with the model that the argument names, if any."""
    if model is None:
        return engine
    if "model" in engine.given.typed and engine.model != model:
        raise UsageError(f"{model} and -m {engine.model} are two models: name one")
    return replace(engine, model=model)


def _plan(
    engine: EngineOptions,
    only: str | None,
    limits: LimitOptions,
    quality: QualityOptions,
    quiet: bool,
    root: Path,
) -> Plan:
    from orin_llm.accept.indicators import chosen
    from orin_llm.accept.plan import make_plan
    from orin_llm.device.stamp import read_stamp
    from orin_llm.models.store import resolve

    indicators, thresholds = chosen(only), limits.read()
    model, config = resolve(engine.model), engine.config(quiet=quiet)
    window_tokens = thresholds.shapes.perplexity.window_tokens
    reference, text = quality.source(model, config, window_tokens)
    return make_plan(
        model, config, indicators, thresholds, read_stamp(root), [engine.model],
        reference=reference, text=text, root=root,
    )  # fmt: skip


def _run(
    plan: Plan,
    folder: Evidence | None,
    allow_unmeasured: bool,
    report: StderrReporter,
    quiet: bool,
) -> Acceptance:
    """All outcomes, or those that were there at Ctrl-C."""
    from orin_llm.accept.session import Session
    from orin_llm.cli.accept_view import outcome_line
    from orin_llm.cli.progress import load_engine
    from orin_llm.cli.quality_load import open_model

    session = Session(
        plan,
        lambda path, config: load_engine(path, config, quiet=quiet),
        lambda side, beside: open_model(side.path, side.config, report, quiet=quiet, beside=beside),
        report,
    )
    found: list[Outcome] = []
    interrupted = False

    try:
        for outcome in session.outcomes():
            found.append(outcome)  # first: what is told below is kept
            if folder is not None:
                folder.add(outcome)
            report.message(outcome_line(outcome))
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
    return session.result(found, allow_unmeasured=allow_unmeasured, interrupted=interrupted)


def _print(acceptance: Acceptance, layout: str) -> None:
    from orin_llm.accept.evidence import FORMATS
    from orin_llm.cli.accept_view import print_acceptance
    from orin_llm.cli.render import tolerate_narrow_encoding

    tolerate_narrow_encoding(sys.stdout)
    if layout == "text":
        print_acceptance(acceptance)
    else:
        print(FORMATS[layout](acceptance), end="", flush=True)
