"""What a tuning run leaves: a profile in the store, and a report in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orin_llm.engine.native_params import thread_count
from orin_llm.errors import UsageError
from orin_llm.profiles.profile import Profile
from orin_llm.profiles.store import ProfileStore
from orin_llm.tune.job import Job, commands
from orin_llm.tune.kv_quality import KvQuality
from orin_llm.tune.outcome import Outcome
from orin_llm.tune.page_kernels import PageKernels, page_kernels
from orin_llm.tune.report import About, quality_text
from orin_llm.tune.report_profile import profile_of, result_json
from orin_llm.tune.report_tables import PAGE, has_knob

_DECIDED = ("better", "noise", "default")


@dataclass(frozen=True)
class Kept:
    """What was written.

    Attributes:
        profile: its name; None: there is none.
        result: for `--json`.
    """

    profile: str | None
    result: dict[str, Any]


def keep(
    job: Job,
    outcome: Outcome,
    qualities: Sequence[KvQuality],
    warnings: Sequence[str],
    typed: str,
    store: ProfileStore,
) -> Kept:
    """Write the profile and the report.

    Args:
        warnings: what the user went past.
        typed: the command line that began it.

    Raises OrinError where they cannot be written.
    """
    fixed = job.fixed_values()
    told = commands(job, {**fixed, **outcome.settings}, typed)
    machine = job.machine()
    name = job.name if deserves_profile(outcome, store, job.name) else None
    profile: Profile | None = None
    if name is not None:
        evidence = {"machine": machine, "commands": told, "warnings": list(warnings)}
        profile = profile_of(outcome, job.key, fixed, evidence)
        store.save(name, profile)
        job.folder.write_profile(profile)
    places = {
        "profile_name": name,
        "report": str(job.folder.report),
        "study": str(job.folder.study),
    }
    result = result_json(outcome, profile, places, warnings)
    about = About(
        model=job.key.model,
        file_name=job.model.name,
        header=job.header,
        n_ctx=job.base.n_ctx,
        machine=machine,
        commands=told,
        warnings=warnings,
        profile=name or "",
        quality={found.kv_type: quality_text(found) for found in qualities},
        kernels=_kernels(job, outcome),
    )
    job.folder.write(outcome, about, None if outcome.decision == "unfinished" else result)
    return Kept(name, result)


def _kernels(job: Job, outcome: Outcome) -> dict[int, PageKernels]:
    """Of the page sizes that were tried, with the other settings that were chosen."""
    if job.key.gpu is not None or outcome.best is None or not has_knob(outcome, PAGE):
        return {}
    chosen = outcome.space.config(outcome.best.candidate, job.base)
    sizes = [int(value) for value in outcome.space.knob(PAGE).values]
    threads = thread_count(chosen)
    return page_kernels(job.header, chosen.kv_type, sizes, job.work.prompts[-1], threads)


def deserves_profile(outcome: Outcome, store: ProfileStore, name: str) -> bool:
    """Whether a profile is made: of what was decided, and of the best so far where nothing better
    is there."""
    if outcome.best is None or outcome.decision == "infeasible":
        return False
    if outcome.decision in _DECIDED or not store.has_own(name):
        return True
    try:
        known = store.read(name).profile.evidence.get("decision")
    except UsageError:  # damaged
        return True
    return known not in _DECIDED
