"""What a check found: how bad it is, what was found and expected, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["missing", "hurts", "warning", "note", "unknown", "ok"]
LEVELS: tuple[Level, ...] = ("missing", "hurts", "warning", "note", "unknown", "ok")  # worst first


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: its name, the same on every machine.
        level: `missing`: orin-llm cannot work; `hurts`: costs speed or memory now, or will fail;
            `warning`: may hurt; `note`: worth knowing; `unknown`: could not be read; `ok`.
        found: what is.
        expected: what should be, or "".
        fix: what to do, or "".
    """

    check: str
    level: Level
    found: str
    expected: str = ""
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        """All fields."""
        return asdict(self)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first; those of one level stay in their order."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def exit_code(findings: Iterable[Finding]) -> int:
    """4: something that is needed is missing; 1: something hurts; else 0."""
    levels = {finding.level for finding in findings}
    return 4 if "missing" in levels else 1 if "hurts" in levels else 0
