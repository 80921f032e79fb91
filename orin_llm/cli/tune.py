"""`orin-llm tune`: the settings that serve a goal best on this machine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.errors import INTERRUPTED
from orin_llm.cli.json_output import print_json
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.root_option import Root
from orin_llm.cli.tune_options import (
    FixedOptions,
    GoalOptions,
    ResultOptions,
    SearchOptions,
    WorkOptions,
)
from orin_llm.errors import OrinError, UsageError
from orin_llm.models.names import DEFAULT_MODEL

if TYPE_CHECKING:
    from orin_llm.cli.progress import StderrReporter
    from orin_llm.tune.job import Job
    from orin_llm.tune.knobs import Space
    from orin_llm.tune.outcome import Outcome


@with_option_groups
def tune(
    model: Annotated[
        str, typer.Argument(help="Name in the store, or a GGUF file.")
    ] = DEFAULT_MODEL,
    *,
    goal: GoalOptions,
    search: SearchOptions,
    work: WorkOptions,
    fixed: FixedOptions,
    result: ResultOptions,
    root: Root = Path("/"),
) -> None:
    """Find the settings that serve a goal best on this machine, and keep them as a profile.

    Commands that run the model here pick the profile up by themselves.

    Ctrl-C keeps the best so far; the same command goes on from there.
    """
    from orin_llm.cli.progress import reporter
    from orin_llm.cli.tune_view import plan_json, print_plan, print_result
    from orin_llm.profiles.store import ProfileStore
    from orin_llm.tune.report_keep import keep

    once = ("--resume", "--fresh")
    typed = shlex.join(["orin-llm", *(word for word in sys.argv[1:] if word not in once)])
    job = _job(model, goal, search, work, fixed, result, root)
    with reporter(result.quiet) as report:
        warnings = _warnings(model, fixed.gpu_layers, search, root)
        if search.dry_run:
            space = job.space([])
            print_json(plan_json(job, space)) if result.as_json else print_plan(job, space)
            return
        _begin(job, search.resume, report)
        qualities = job.qualities(report.message)
        if not job.folder.has_trials:
            report.message("measuring the defaults")  # which can take minutes
        outcome, interrupted = _search(job, job.space(qualities), root, report)
    kept = keep(job, outcome, qualities, warnings, typed, ProfileStore())
    if result.as_json:
        print_json(kept.result)
    else:
        print_result(job, outcome, kept.profile)
    if interrupted:
        print(
            f"interrupted: the best so far is kept; the same command goes on ({job.folder.path})",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED)
    if outcome.decision == "infeasible":
        raise OrinError(f"{outcome.reason}: no profile was made")


def _warnings(model: str, gpu_layers: int, search: SearchOptions, root: Path) -> list[str]:
    """What the doctor finds that makes tuning a mistake, where the user goes past it.

    Raises OrinError where the user does not.
    """
    from orin_llm.cli.render import visible
    from orin_llm.device.board import read_board
    from orin_llm.doctor.catalogue import check
    from orin_llm.doctor.look import look
    from orin_llm.tune.traps import traps

    under_load = read_board(root).is_jetson and not search.dry_run
    machine = look(root, model, 0, load=under_load)
    found = [trap.text for trap in traps(check(machine), on_gpu=gpu_layers != 0)]
    for text in found:  # with --quiet, too
        print(visible(f"warning: {text}"), file=sys.stderr, flush=True)
    if found and not (search.anyway or search.dry_run):
        raise OrinError(
            "the machine is not worth tuning as it is: put right what is named "
            f"({'; '.join(trap.split(':')[0] for trap in found)}), or say --anyway to tune for it "
            "as it is"
        )
    return found


def _job(
    model: str,
    goal: GoalOptions,
    search: SearchOptions,
    work: WorkOptions,
    fixed: FixedOptions,
    result: ResultOptions,
    root: Path,
) -> Job:
    from orin_llm.device.stamp import read_stamp
    from orin_llm.engine.loaded_model import read_model_header
    from orin_llm.models.store import resolve
    from orin_llm.profiles.here import key_here
    from orin_llm.profiles.store import ProfileStore, profile_name
    from orin_llm.tune.job import Job
    from orin_llm.tune.report_folder import ReportFolder, default_folder

    aim, plan, base = goal.read(), search.plan(), fixed.config()
    path = resolve(model)
    header = read_model_header(path)
    key = key_here(path, fixed.gpu_layers, root)
    name = profile_name(result.name) if result.name else ProfileStore().name_for(key, aim.name)
    only = None if search.only is None else {part.strip() for part in search.only.split(",")}
    return Job(
        model=path,
        typed_model=model,
        header=header,
        base=base,
        kept=fixed.kept,
        goal=aim,
        work=work.read(header, fixed.ctx_size),
        plan=plan,
        key=key,
        stamp=read_stamp(root),
        only=only,
        name=name,
        folder=ReportFolder(result.folder or default_folder(name)),
    )


def _begin(job: Job, resume: bool | None, report: StderrReporter) -> None:
    """Make the folder; an earlier search in it goes on, or is thrown away."""
    folder = job.folder
    if resume and not folder.has_trials:
        raise UsageError(f"there is nothing to go on with in {folder.path}: leave --resume out")
    fresh = folder.is_finished if resume is None else not resume
    if folder.has_trials and not fresh:
        report.message(f"going on with the trials in {folder.path} (--fresh begins anew)")
    folder.make(fresh=fresh)


def _search(job: Job, space: Space, root: Path, report: StderrReporter) -> tuple[Outcome, bool]:
    """The outcome, and whether Ctrl-C ended the search."""
    from orin_llm.bench.watch import watching
    from orin_llm.cli.progress import load_engine
    from orin_llm.cli.tune_view import trial_line
    from orin_llm.models.reporter import Progress
    from orin_llm.tune.engine_bench import EngineBench
    from orin_llm.tune.search import Tuner
    from orin_llm.tune.study import Study

    interrupted = False
    with (
        Study.open(job.folder.study, space, job.goal, job.about()) as study,
        watching(root) as watch,
        EngineBench(
            job.model,
            job.base,
            space,
            job.goal,
            job.work,
            lambda path, config: load_engine(path, config, quiet=True),
            watch,
            report.message,
        ) as bench,
    ):
        tuner = Tuner(space, job.goal, bench, study, job.plan, report.message)
        try:
            for trial in tuner.run():
                if trial.state != "pruned":  # the report says how many were, and why
                    report.message(trial_line(trial))
                done = tuner.progress
                report.progress(Progress("tuning", done.done, done.total, "repetitions"))
        except KeyboardInterrupt:
            interrupted = True
        return tuner.outcome(), interrupted
