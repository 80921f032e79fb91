"""A profile: settings of an engine that were found best for a key, and what shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import Any

from orin_llm.engine.config import EngineConfig
from orin_llm.errors import UsageError
from orin_llm.profiles.key import ProfileKey

GOALS = ("ttft", "tpot", "throughput", "energy", "balanced")
# Settings that change how fast a model answers and not what runs; those of EngineConfig.
TUNABLE = (
    "chunk_size",
    "page_size",
    "max_batch",
    "threads",
    "cpus",
    "kv_type",
    "kv_memory",
    "flash_attention",
    "kernels",
)


@dataclass(frozen=True)
class Profile:
    """Settings for one key.

    Attributes:
        values: of fields of `EngineConfig`, by name; kernels as text: `vector_rows=4`.
        goal: what they are best for.
        evidence: what was measured: numbers, texts, lists and mappings of these.
        created: UTC, ISO 8601.
    """

    key: ProfileKey
    values: Mapping[str, int | str]
    goal: str = "balanced"
    evidence: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""

    def __post_init__(self) -> None:
        check_values(self.values)
        if self.goal not in GOALS:
            raise UsageError(f"the goal is {self.goal!r}: expected {', '.join(GOALS)}")
        if not self.created:
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            object.__setattr__(self, "created", now.replace("+00:00", "Z"))

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "goal": self.goal,
            "created": self.created,
            "key": self.key.to_json(),
            "values": dict(self.values),
            "evidence": dict(self.evidence),
        }


def check_values(values: Mapping[str, Any]) -> None:
    """UsageError where an engine cannot have such settings, or they are none of a profile."""
    known = {entry.name for entry in fields(EngineConfig)} & set(TUNABLE)
    for name, value in values.items():
        if name not in known:
            allowed = ", ".join(n for n in TUNABLE if n in known)
            raise UsageError(f"there is no setting {name!r} in a profile. Allowed: {allowed}")
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise UsageError(f"{name} is {value!r}: expected a whole number or text")
        if name == "kernels" and str(value).lstrip().startswith("@"):
            raise UsageError("kernels names a file: a profile holds the choices themselves")
    EngineConfig(**values)


def values_text(values: Mapping[str, int | str]) -> str:
    """`chunk_size 256, page_size 32`."""
    return ", ".join(f"{name} {value}" for name, value in values.items())
