"""What `orin-llm tune` shows: trials as they end, the plan of a dry run, and the result."""

from __future__ import annotations

import sys
from typing import Any

from orin_llm.cli.paragraphs import print_paragraph
from orin_llm.cli.profile_view import setup_text
from orin_llm.cli.render import tolerate_narrow_encoding
from orin_llm.cli.table import print_table
from orin_llm.tune.job import Job, work_text
from orin_llm.tune.knobs import Space
from orin_llm.tune.kv_quality import KV_TYPES
from orin_llm.tune.outcome import Outcome, Trial
from orin_llm.tune.plan import SMALL
from orin_llm.tune.report import decision_text, noise_text
from orin_llm.tune.report_tables import number, result_rows, values_text, written

_LABEL_CELLS = 10


def trial_line(trial: Trial) -> str:
    """`12 first look: chunk_size 256, page_size 16: cost 0.931 of the default's`."""
    said = (
        [f"cost {number(trial.cost, 3)} of the default's"]
        if trial.cost is not None
        else [trial.state]
    )
    said += [*trial.violations, *filter(None, [trial.note])]
    return f"{trial.number} {trial.stage}: {trial.candidate.text}: {'; '.join(said)}"


def print_plan(job: Job, space: Space) -> None:
    """What would be tuned."""
    tolerate_narrow_encoding(sys.stdout)
    rows = [[k.name, values_text(k), written(k.default)] for k in space.knobs]
    for label, text in _facts(job):
        print_paragraph(text, label, _LABEL_CELLS)
    print_paragraph(search_text(job, space), "search", _LABEL_CELLS)
    if job.wants_kv_types:
        bound = job.goal.constraints.max_perplexity_ratio
        text = f"those of {', '.join(KV_TYPES)} whose perplexity is at most {bound:g} times as high"
        print_paragraph(text, "KV types", _LABEL_CELLS)
    print()
    print_table(["SETTING", "VALUES", "DEFAULT"], rows)


def search_text(job: Job, space: Space) -> str:
    """How many combinations there are, and how they are searched."""
    count = space.combinations
    if job.plan.full:
        return f"all {count} combinations, {job.plan.repetitions} times each"
    how = "one setting at a time, then the promising ones" if count <= SMALL else "by Optuna"
    return f"{count} combinations, {how}; the best in turns with the default"


def plan_json(job: Job, space: Space) -> dict[str, Any]:
    """For `--dry-run --json`."""
    return {
        "key": job.key.to_json(),
        **job.goal.to_json(),
        "work": dict(job.work.to_json()),
        "combinations": space.combinations,
        "settings": {
            knob.name: {"values": list(knob.values), "default": knob.default}
            for knob in space.knobs
        },
        "kv_types": list(KV_TYPES) if job.wants_kv_types else [],
        "profile_name": job.name,
        "folder": str(job.folder.path),
    }


def print_result(job: Job, outcome: Outcome, profile: str | None) -> None:
    """The decision, the settings and the figures; then what was written where."""
    tolerate_narrow_encoding(sys.stdout)
    for label, text in _facts(job):
        print_paragraph(text, label, _LABEL_CELLS)
    print_paragraph(noise_text(outcome), "noise", _LABEL_CELLS)
    print_paragraph(decision_text(outcome), "result", _LABEL_CELLS)
    if outcome.best is not None:
        print()
        _print_settings(outcome)
        print()
        print_table(["MEASURED", "DEFAULT", "CHOSEN", "RATIO"], result_rows(outcome))
    print()
    if profile:
        text = f"{profile}; commands that run {job.key.model} here pick it up"
        print_paragraph(text, "profile", _LABEL_CELLS)
    print_paragraph(str(job.folder.report), "report", _LABEL_CELLS)


def _facts(job: Job) -> list[tuple[str, str]]:
    bounds = {n: v for n, v in vars(job.goal.constraints).items() if v is not None}
    return [
        ("model", job.key.model),
        ("machine", setup_text(job.key)),
        ("goal", ", ".join([job.goal.name, *(f"{name} {v:g}" for name, v in bounds.items())])),
        ("measured", work_text(job.work, job.goal)),
    ]


def _print_settings(outcome: Outcome) -> None:
    assert outcome.best is not None
    best = outcome.best.candidate
    rows = [[k.name, written(k.default), written(best[k.name])] for k in outcome.space.knobs]
    print_table(["SETTING", "DEFAULT", "CHOSEN"], rows)
