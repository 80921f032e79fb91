"""What a tuning run leaves: a profile in the store, and a report in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orin_llm.errors import UsageError
from orin_llm.profiles.profile import Profile
from orin_llm.profiles.store import ProfileStore
from orin_llm.tune.job import Job, commands
from orin_llm.tune.kv_quality import KvQuality
from orin_llm.tune.outcome import Outcome
from orin_llm.tune.report import About, quality_text
from orin_llm.tune.report_profile import profile_of, result_json

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
    )
    job.folder.write(outcome, about, None if outcome.decision == "unfinished" else result)
    return Kept(name, result)


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
