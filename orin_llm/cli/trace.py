"""`orin-llm trace`: one run, moment by moment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.bench_options import EnginesOptions, WorkloadOptions
from orin_llm.cli.errors import INTERRUPTED
from orin_llm.cli.machine_options import SensorOptions
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import flag
from orin_llm.errors import DeviceUnavailable, OrinError, UsageError

if TYPE_CHECKING:
    from orin_llm.trace.record import Plan, Recorded

RUN, OUTPUT, PROFILER = "Run", "Output", "Profiler"
_NSYS = ("off", "print", "run")


@with_option_groups
def trace(
    workload: Annotated[
        str | None,
        typer.Argument(
            metavar="[WORKLOAD]",
            help="As for orin-llm bench: single, concurrent, interference or shared-prefix.",
            show_default="single; concurrent with --parallel or --trace",
        ),
    ] = None,
    *,
    load: WorkloadOptions,
    engines: EnginesOptions,
    warmup: Annotated[
        int, flag("--warmup", panel=RUN, help="Runs before the one that is traced.")
    ] = 1,
    seed: Annotated[int, flag("--seed", panel=RUN, help="Of random prompts and lengths.")] = 0,
    machine: SensorOptions,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            rich_help_panel=OUTPUT,
            help="The trace, for ui.perfetto.dev or chrome://tracing.",
        ),
    ] = Path("trace.json"),
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", rich_help_panel=OUTPUT, help="A PNG of memory, tokens and sensors."
        ),
    ] = None,
    force: Annotated[
        bool, flag("--force", panel=OUTPUT, help="Overwrite files that are there.")
    ] = False,
    as_json: Annotated[
        bool, flag("--json", panel=OUTPUT, help="Print one JSON object: figures by phase.")
    ] = False,
    cost: Annotated[
        int,
        flag(
            "--cost",
            panel=OUTPUT,
            metavar="PAIRS",
            min=0,
            help="Write nothing: run so many pairs, traced and not, and say what tracing costs.",
        ),
    ] = 0,
    quiet: Annotated[
        bool, flag("-q", "--quiet", panel=OUTPUT, help="No progress and no notes on stderr.")
    ] = False,
    nsys: Annotated[
        str,
        flag(
            "--nsys",
            panel=PROFILER,
            metavar="[off|print|run]",
            help="Print, or run, the commands that let Nsight Systems watch this run.",
        ),
    ] = "off",
) -> None:
    """Write a timeline of one run: steps, gaps, requests, pages, sensors; figures on stdout.

    An export of Nsight Systems is summed up by orin-llm trace summarize FILE.
    """
    from orin_llm.models.output_file import require_new
    from orin_llm.models.store import resolve
    from orin_llm.trace.record import Plan, one_scenario

    if nsys not in _NSYS:
        raise UsageError(f"--nsys {nsys}: choose one of {', '.join(_NSYS)}")
    if workload == "load":
        raise UsageError(
            "a start cannot be traced: orin-llm bench load measures it. Trace single, concurrent, "
            "interference or shared-prefix"
        )
    scenario = one_scenario(load.scenarios(workload or load.default_workload))
    if cost and nsys != "off":
        raise UsageError("--cost and --nsys: choose one of them")
    files = [output] if picture is None else [output, picture]
    if len(files) == 2 and output.absolute() == files[1].absolute():
        raise UsageError(f"-o and --picture are both {output}: name two files")
    if nsys != "print" and not cost:
        for file in files:
            require_new(file, force=force)
    if nsys != "off":
        _profile(output, run=nsys == "run", force=force, as_json=as_json)
        return
    configs = engines.configs(quiet=quiet)
    if len(configs) != 1:
        raise UsageError(
            f"a trace shows one run, and these flags make {len(configs)} engines: give each flag "
            "one value"
        )
    plan = Plan(
        resolve(engines.model), configs[0], scenario, warmup, seed,
        machine.readings, machine.interval, machine.root,
    )  # fmt: skip
    if cost:
        _print_cost(plan, cost, as_json=as_json, quiet=quiet)
        return
    recorded = _record(plan, quiet)
    _finish(recorded, output, picture, as_json=as_json, quiet=quiet)


def _record(plan: Plan, quiet: bool) -> Recorded:
    from orin_llm.cli.progress import load_engine, reporter
    from orin_llm.trace.record import record

    with reporter(quiet) as progress:
        return record(
            plan, lambda path, config: load_engine(path, config, quiet=quiet), progress.message
        )


def _print_cost(plan: Plan, pairs: int, *, as_json: bool, quiet: bool) -> None:
    from orin_llm.cli.json_output import print_json
    from orin_llm.cli.progress import load_engine, reporter
    from orin_llm.cli.trace_view import print_cost
    from orin_llm.trace.cost import measure_cost

    if not plan.readings:
        raise UsageError("--cost is that of the readings: leave out --no-readings")
    with reporter(quiet) as progress:
        cost = measure_cost(
            plan,
            pairs,
            lambda path, config: load_engine(path, config, quiet=quiet),
            progress.message,
        )
    if as_json:
        asked = {"workload": plan.scenario.settings, "interval_ms": plan.interval_ms}
        print_json({**asked, **cost.to_json()})
    else:
        print_cost(plan, cost)
    if cost.interrupted:
        raise typer.Exit(INTERRUPTED)


def _finish(
    recorded: Recorded, output: Path, picture: Path | None, *, as_json: bool, quiet: bool
) -> None:
    """Write the files, and print the figures, also where a file could not be written."""
    from orin_llm.cli.json_output import print_json
    from orin_llm.cli.trace_view import print_figures, trace_json
    from orin_llm.trace.figures import figures
    from orin_llm.trace.files import write_picture, write_trace_file
    from orin_llm.trace.lanes import lanes

    shown = lanes(recorded.run)
    written: list[Path] = []
    problem: OrinError | None = None
    try:
        write_trace_file(recorded, shown, output)
        written.append(output)
        if picture is not None:
            write_picture(recorded, picture)
            written.append(picture)
    except OrinError as failure:
        problem = failure
    found = figures(recorded.run, recorded.max_gap_ms)
    if as_json:
        print_json(trace_json(recorded, found, shown.left_out, written))
    else:
        print_figures(recorded, found)
    if written and not quiet:
        for note in shown.left_out:
            _say(f"note: not in the trace: {note}")
        beside = "".join(f", and {path}" for path in written[1:])
        _say(f"written: {written[0]} (open it at https://ui.perfetto.dev){beside}")
    if problem is not None:
        raise problem
    if recorded.interrupted:
        _say("interrupted: the requests are not in the trace, only the steps until then")
        raise typer.Exit(INTERRUPTED)
    if found.failed:
        error = next(request.error for request in recorded.run.requests if request.error)
        raise OrinError(f"{found.failed} of {found.requests} requests failed: {error}")


def _profile(output: Path, *, run: bool, force: bool, as_json: bool) -> None:
    """Print the commands that let nsys watch this very command line, or run them."""
    import shlex

    from orin_llm.cli.trace_summarize import print_export
    from orin_llm.device.build import build_info
    from orin_llm.models.output_file import require_new
    from orin_llm.trace.nsys import Profiling, run_profiler

    # Of a flag that is there twice the last one counts. What may be overwritten was asked above.
    arguments = [*sys.argv[1:], "--nsys=off", *(["--force"] if run else [])]
    command = (sys.executable, "-m", "orin_llm.cli", *arguments)
    profiling = Profiling(command, output.with_suffix(""))
    no_cuda = "this build computes on the CPU alone, and nsys would see no work of a GPU"
    if run:
        if not build_info().cuda:
            raise DeviceUnavailable(f"{no_cuda}: see orin-llm doctor")
        for file in (profiling.report, profiling.sqlite):
            require_new(file, force=force)
        print_export(run_profiler(profiling), top=10, as_json=as_json)
        return
    for words in (profiling.profile, profiling.export, profiling.summarize):
        print(shlex.join(words))
    if not build_info().cuda:
        _say(f"note: {no_cuda}")


def _say(text: str) -> None:
    from orin_llm.cli.render import visible

    print(visible(text), file=sys.stderr, flush=True)
