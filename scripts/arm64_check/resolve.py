"""The step that resolves what pyproject.toml names to wheels for the boards' systems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from arm64_check.chosen_wheels import JETPACKS, NoWheel, System, Wheel, choose
from arm64_check.steps import WORK, CheckFailed, Emulated, Found
from checking.checkout import ROOT
from orin_llm.host.toml_file import read_toml

TABLE = WORK / "wheels.md"
_NEEDED_EXTRAS = ("test", "lint")  # all others add something that the product goes without


@dataclass
class Resolved:
    """What one system gets: group -> its wheels, and what of the extras has none."""

    wheels: dict[str, list[Wheel]] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)  # extra -> requirement

    def of_all(self) -> list[Wheel]:
        return [wheel for group in self.wheels.values() for wheel in group]


def resolve(machine: Emulated) -> Found:
    """The table goes to build/arm64_check/wheels.md."""
    resolved = {system: resolve_on(system, *requirements()) for system in JETPACKS}
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(table(resolved))
    told = {system.name: in_words(system, chosen) for system, chosen in resolved.items()}
    return {**told, "table": str(TABLE.relative_to(ROOT))}


def requirements() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What has to resolve, and the extras that may not: group -> requirements."""
    settings = read_toml(ROOT / "pyproject.toml")
    extras: dict[str, list[str]] = dict(settings["project"]["optional-dependencies"])
    named = [("package", settings["project"]["dependencies"])]
    named += [(extra, extras.pop(extra)) for extra in _NEEDED_EXTRAS]
    together = ", ".join(name for name, _ in named)
    needed = {
        "build": settings["build-system"]["requires"],
        together: [requirement for _, group in named for requirement in group],
    }
    return needed, extras


def resolve_on(
    system: System, needed: dict[str, list[str]], extras: dict[str, list[str]]
) -> Resolved:
    """Raises CheckFailed where something that is needed has no wheel."""
    found = Resolved()
    for group, names in needed.items():
        try:
            found.wheels[group] = choose(system, names)
        except NoWheel as missing:
            raise CheckFailed(
                f"{system.name} (Python {system.python}, glibc 2.{system.glibc}): {missing} of"
                f" {group} has no wheel: make it optional, or replace it"
            ) from None
    for extra, names in extras.items():
        try:
            found.wheels[extra] = choose(system, names)
        except NoWheel as missing:
            found.without[extra] = str(missing)
    return found


def in_words(system: System, resolved: Resolved) -> str:
    wheels = resolved.of_all()
    newest = max(wheels, key=lambda wheel: wheel.glibc)
    missing = [f"[{extra}] {package}" for extra, package in resolved.without.items()]
    return (
        f"Python {system.python}: {len({wheel.name for wheel in wheels})} packages from wheels,"
        f" which need glibc 2.{newest.glibc} ({newest.name}) of 2.{system.glibc};"
        f" no wheel: {', '.join(missing) or 'none'}"
    )


def table(resolved: dict[System, Resolved]) -> str:
    """Markdown: a row for each package of a group, a column for each system."""
    lines = [
        "| for | package | " + " | ".join(system.name for system in resolved) + " |",
        "|---" * (len(resolved) + 2) + "|",
    ]
    for group in _in_order(resolved.values()):
        by_name: dict[str, dict[System, str]] = {}
        for system, chosen in resolved.items():
            for wheel in chosen.wheels.get(group, []):
                by_name.setdefault(wheel.name, {})[system] = f"{wheel.version} `{wheel.tag}`"
            if group in chosen.without:
                by_name.setdefault(chosen.without[group], {})[system] = "no wheel"
        for name, cells in by_name.items():
            row = " | ".join(cells.get(system, "not needed") for system in resolved)
            lines.append(f"| {group} | {name} | {row} |")
    return "\n".join(lines) + "\n"


def _in_order(resolved: Iterable[Resolved]) -> list[str]:
    return list(dict.fromkeys(group for one in resolved for group in (*one.wheels, *one.without)))
