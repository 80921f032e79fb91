"""`orin-llm bench`: workloads on our engine, and on what it is compared with."""

from __future__ import annotations

from typing import Annotated

import typer

from orin_llm.cli.bench_options import ComparisonOptions, EnginesOptions, WorkloadOptions
from orin_llm.cli.bench_output import print_results, require_none_failed
from orin_llm.cli.bench_report import REPORT, FormatFlag, JsonFlag, QuietFlag, ReportOptions
from orin_llm.cli.layout import chosen_layout
from orin_llm.cli.machine_options import MachineOptions
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import flag


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
            "--trace. A server: orin-llm bench serve URL.",
        ),
    ] = "",
    *,
    load: WorkloadOptions,
    engines: EnginesOptions,
    comparison: ComparisonOptions,
    extras: ReportOptions,
    machine: MachineOptions,
    repetitions: Annotated[
        int, flag("-r", "--repetitions", panel=REPORT, help="Runs that count.")
    ] = 5,
    warmup: Annotated[int, flag("--warmup", panel=REPORT, help="Runs before them.")] = 1,
    seed: Annotated[int, flag("--seed", panel=REPORT, help="Of random prompts and lengths.")] = 0,
    output: FormatFlag = "md",
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Measure TTFT, TPOT, throughput and memory: results on stdout, progress on stderr.

    Numbers take lists and ranges (512,1024 or 128-512+128 or 1-16*2): every combination is run.

    orin-llm bench serve URL puts a load on a server; orin-llm bench show FILE shows a report again.
    """
    from orin_llm.bench.campaign import Campaign, measure
    from orin_llm.bench.report import FORMATS
    from orin_llm.bench.start_campaign import measure_starts
    from orin_llm.bench.watch import watching
    from orin_llm.cli.progress import load_engine, reporter
    from orin_llm.engine import Hooks
    from orin_llm.models.store import resolve

    layout = chosen_layout(ctx, output, as_json, FORMATS)
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
    caches = load.caches() if workload == "load" else ()
    settings = [s.settings for s in campaign.scenarios]
    if caches:
        settings = [{**one, "page_cache": cache} for one in settings for cache in caches]
    passing = extras.prepare(layout, settings, quiet=quiet)
    with (
        reporter(quiet) as progress,
        watching(
            machine.root, readings=machine.reads(workload), interval_ms=machine.interval
        ) as watch,
    ):
        if workload == "load":
            starts = measure_starts(campaign, caches, progress.message, watch)
            print_results(passing(starts), layout, n_workloads * len(caches))
            return
        reports = measure(
            campaign,
            lambda path, config: load_engine(path, config, quiet=quiet),
            progress.message,
            watch,
        )
        results = print_results(passing(reports), layout, n_workloads)
    require_none_failed(results)
