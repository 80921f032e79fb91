"""The profile that a search ends with, and its figures for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orin_llm.profiles.key import ProfileKey
from orin_llm.profiles.profile import Profile
from orin_llm.tune.measurement import Load, Measurement
from orin_llm.tune.outcome import Outcome, Standing
from orin_llm.tune.report import verdict_text

_RUNNERS_UP = 3


def profile_of(
    outcome: Outcome, key: ProfileKey, base: Mapping[str, int | str], about: Mapping[str, Any]
) -> Profile:
    """The best settings as a profile.

    Args:
        base: settings that were fixed, not tuned, and are none of the defaults.
        about: evidence beside the outcome's: the machine, the commands.
    """
    values = {name: value for name, value in outcome.settings.items() if value != ""}
    told = _known({**evidence(outcome), **about})
    return Profile(key, {**base, **values}, outcome.goal.name, told)


def _known(table: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was not measured and what is empty."""
    found = {}
    for name, value in table.items():
        inner = _known(value) if isinstance(value, Mapping) else value
        if inner not in (None, {}, []):
            found[name] = inner
    return found


def evidence(outcome: Outcome) -> dict[str, Any]:
    """What speaks for the choice."""
    best, default = outcome.best, outcome.default
    bounds = outcome.goal.to_json()
    bounds.pop("goal")
    return {
        "decision": outcome.decision,
        "reason": outcome.reason,
        "bounds": bounds,
        "cost": cost_json(best),
        "best": figures_json(best.measurement) if best else None,
        "default": figures_json(default.measurement) if default else None,
        "limits": [verdict_text(verdict) for verdict in best.verdicts] if best else [],
        "runners_up": [
            {"settings": standing.candidate.text, **(cost_json(standing) or {})}
            for standing in outcome.runners_up[:_RUNNERS_UP]
        ],
        "alike": [candidate.text for candidate in outcome.indistinguishable[:_RUNNERS_UP]],
        "trials": len(outcome.trials),
        "elapsed_s": round(outcome.elapsed_s, 1),
        "noise": round(outcome.noise, 4),
    }


def cost_json(standing: Standing | None) -> dict[str, float | None] | None:
    """A cost, that of the default being 1, with the interval that it lies in at 95 %."""
    if standing is None or standing.cost is None:
        return None
    cost = standing.cost
    return {"value": cost.value, "low": cost.low, "high": cost.high}


def figures_json(measurement: Measurement) -> dict[str, Any]:
    """Medians and loads; what was not measured is null."""
    return {
        "ttft_ms": {str(length): ms for length, ms in measurement.ttft_ms.items()},
        "tpot_ms": measurement.tpot_ms,
        "tokens_per_s": measurement.tokens_per_s,
        "concurrent_tpot_ms": measurement.concurrent_tpot_ms,
        "joules_per_token": measurement.joules_per_token,
        "power_w": measurement.power_w,
        "prefill": _load_json(measurement.prefill),
        "decode": _load_json(measurement.decode),
        "hottest_c": measurement.hottest_c,
        "throttled": None if measurement.throttled is None else list(measurement.throttled),
        "repetitions": len(measurement.samples),
    }


def _load_json(load: Load) -> dict[str, float | None]:
    return {
        "gpu_percent": load.gpu_percent,
        "gpu_mhz": load.gpu_mhz,
        "emc_percent": load.emc_percent,
        "emc_mhz": load.emc_mhz,
        "bandwidth_gb_s": load.bandwidth_gb_s,
        "power_w": load.power_w,
    }


def result_json(
    outcome: Outcome, profile: Profile | None, places: Mapping[str, Any], warnings: Sequence[str]
) -> dict[str, Any]:
    """For `orin-llm tune --json`.

    Args:
        profile: that was kept; None: none.
        places: names and paths of what was written.
    """
    return {
        "decision": outcome.decision,
        "reason": outcome.reason,
        **outcome.goal.to_json(),
        "settings": dict(outcome.settings),
        "profile": profile.to_json() if profile else None,
        **places,
        **{
            name: value
            for name, value in evidence(outcome).items()
            if name not in ("decision", "reason", "bounds")
        },
        "warnings": list(warnings),
    }
