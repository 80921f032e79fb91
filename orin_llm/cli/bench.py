"""`orin-llm bench`: workloads on our engine, and on what it is compared with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.bench_options import (
    ComparisonOptions,
    EnginesOptions,
    MachineOptions,
    WorkloadOptions,
)
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import flag
from orin_llm.errors import OrinError, UsageError

if TYPE_CHECKING:
    from orin_llm.bench.result import R, Report

REPORT = "Repetitions and output"


@with_option_groups
def bench(
    ctx: typer.Context,
    workload: Annotated[
        str,
        typer.Argument(
            metavar="[WORKLOAD]",
            help="single: one request. concurrent: many at once. interference: a long prompt comes "
            "while streams decode. shared-prefix: a system prompt that requests share. load: from "
            "nothing to the first token. Where none is named: single, or concurrent with -np or "
            "--trace.",
        ),
    ] = "",
    *,
    load: WorkloadOptions,
    engines: EnginesOptions,
    comparison: ComparisonOptions,
    machine: MachineOptions,
    repetitions: Annotated[
        int, flag("-r", "--repetitions", panel=REPORT, help="Runs that count.")
    ] = 5,
    warmup: Annotated[int, flag("--warmup", panel=REPORT, help="Runs before them.")] = 1,
    seed: Annotated[int, flag("--seed", panel=REPORT, help="Of random prompts and lengths.")] = 0,
    output: Annotated[
        str, flag("-o", "--output", panel=REPORT, metavar="[md|json|jsonl|csv]", help="Format.")
    ] = "md",
    as_json: Annotated[bool, flag("--json", panel=REPORT, help="The same as -o json.")] = False,
    quiet: Annotated[
        bool, flag("-q", "--quiet", panel=REPORT, help="No progress on stderr.")
    ] = False,
) -> None:
    """Measure TTFT, TPOT, throughput and memory: results on stdout, progress on stderr.

    Numbers take lists and ranges (512,1024 or 128-512+128 or 1-16*2): every combination is run.
    """
    from orin_llm.bench.campaign import Campaign, measure
    from orin_llm.bench.report import FORMATS
    from orin_llm.bench.start_campaign import measure_starts
    from orin_llm.bench.watch import watching
    from orin_llm.cli.progress import load_engine, reporter
    from orin_llm.engine import Hooks
    from orin_llm.models.store import resolve

    layout = _layout(ctx, output, as_json)
    if layout not in FORMATS:
        raise UsageError(f"no output format {output!r}: choose one of {', '.join(FORMATS)}")
    workload = workload or load.default_workload
    campaign = Campaign(
        model=resolve(engines.model),
        configs=engines.configs(quiet=quiet),
        scenarios=load.scenarios(workload),
        ab=None if comparison.ab is None else Hooks.parse(comparison.ab),
        stock=comparison.stock(),
        repetitions=repetitions,
        warmup=warmup,
        seed=seed,
        cool_down_s=machine.cool_down,
    )
    n_workloads = len(campaign.configs) * len(campaign.scenarios)
    with (
        reporter(quiet) as progress,
        watching(machine.root, readings=machine.reads(workload)) as watch,
    ):
        if workload == "load":
            caches = load.caches()
            starts = measure_starts(campaign, caches, progress.message, watch)
            _print_results(starts, layout, n_workloads * len(caches))
            return
        reports = measure(
            campaign,
            lambda path, config: load_engine(path, config, quiet=quiet),
            progress.message,
            watch,
        )
        results = _print_results(reports, layout, n_workloads)
    failed = sum(result.failed for result in results)
    if failed:
        error = next(error for result in results for error in result.errors)
        raise OrinError(f"{failed} request{'s' * (failed > 1)} failed: {error}")


def _layout(ctx: typer.Context, output: str, as_json: bool) -> str:
    """The format: of two that contradict, the one on the command line; UsageError if both are."""
    sources = {name: ctx.get_parameter_source(name) for name in ("output", "as_json")}
    written = {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}
    if not as_json or written == {"output"}:
        return output
    if "output" in written and output != "json":
        raise UsageError(f"--json and -o {output} contradict: choose one of them")
    return "json"


def _print_results(reports: Iterator[Report[R]], layout: str, n_workloads: int) -> tuple[R, ...]:
    """JSON lines as soon as they are there; else all at the end, also where that is an error.

    Ctrl-C, too, loses nothing but a JSON object, whose reader would take it for the whole; stderr
    says how much of `n_workloads` is there.
    """
    from orin_llm.bench.report import FORMATS
    from orin_llm.bench.result import Report

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
            print(f"interrupted: {what} printed", file=sys.stderr, flush=True)
    return Report.joined(finished).results
