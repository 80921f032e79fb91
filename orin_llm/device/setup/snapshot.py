"""The state before the setup, in a JSON file: what a revert restores."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from orin_llm.device.setup.change import State
from orin_llm.device.setup.system import System
from orin_llm.errors import OrinError

SNAPSHOT = "/var/lib/orin-llm/setup.json"
_VERSION = 1


@dataclass(frozen=True)
class Snapshot:
    """States before, by the change's name, in the order in which the changes were made."""

    before: dict[str, State]

    def with_state(self, name: str, state: State) -> Snapshot:
        """With one more; what was there before the first of several changes is what counts."""
        return Snapshot({**self.before, name: self.before.get(name, state)})

    def without(self, name: str) -> Snapshot:
        """Without one that is restored."""
        return Snapshot({key: state for key, state in self.before.items() if key != name})


def load_snapshot(system: System) -> Snapshot:
    """Read it; an empty one where nothing was changed.

    Raises:
        OrinError: the file is damaged, or of another version.
    """
    text = system.read(SNAPSHOT)
    if text is None:
        return Snapshot({})
    try:
        content: dict[str, Any] = json.loads(text)
        if content["version"] == _VERSION:
            return Snapshot({entry["name"]: {**entry["before"]} for entry in content["changes"]})
        found = f"version {content['version']!r}, expected {_VERSION}"
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        found = f"it cannot be understood ({error!r})"
    raise OrinError(
        f"{system.path(SNAPSHOT)}, the record of the state before the setup, is not usable: "
        f"{found}. Nothing was changed. Look into it; without it nothing can be reverted"
    )


def save_snapshot(system: System, snapshot: Snapshot) -> None:
    """Write it as a whole, or remove it where it holds nothing."""
    if not snapshot.before:
        return system.remove(SNAPSHOT)
    changes = [{"name": name, "before": dict(state)} for name, state in snapshot.before.items()]
    content = {"version": _VERSION, "changes": changes}
    system.write(SNAPSHOT, json.dumps(content, indent=2) + "\n")
