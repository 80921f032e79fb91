"""What `orin-llm models list` tells of: the models in the store and, with --all, what could be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_llm.errors import ModelFileError
from orin_llm.models.manifest import Manifest
from orin_llm.models.registry import RegistryEntry, registry
from orin_llm.models.store import Store


@dataclass(frozen=True)
class Listing:
    """The models of a store.

    Attributes:
        damaged: what is wrong, by name.
        offered: entries of the registry that are not in the store; empty if not asked for.
    """

    store: Store
    stored: tuple[Manifest, ...]
    damaged: dict[str, str]
    offered: tuple[RegistryEntry, ...]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "store": str(self.store.root),
            "models": [stored_json(m, self._path(m)) for m in self.stored],
            "damaged": [{"name": n, "problem": problem} for n, problem in self.damaged.items()],
            "unfinished": [{"name": p.name, "size_bytes": p.bytes} for p in self.store.partials()],
            "registry": [entry.to_json() for entry in self.offered],
        }

    def _path(self, manifest: Manifest) -> Path:
        return self.store.folder(manifest.name) / manifest.files[0].name


def gather(store: Store, *, every: bool) -> Listing:
    """Read the store; with `every`, the registry too."""
    stored: list[Manifest] = []
    damaged: dict[str, str] = {}
    for name in store.names():
        try:
            stored.append(store.manifest(name))
        except ModelFileError as error:
            damaged[name] = str(error)
    here = {m.name for m in stored} | set(damaged)
    offered = [entry for entry in registry().values() if entry.name not in here] if every else []
    return Listing(store, tuple(stored), damaged, tuple(offered))


def stored_json(manifest: Manifest, path: Path) -> dict[str, Any]:
    """One stored model, for `--json`; `sha256` has one entry for each file."""
    return {
        "name": manifest.name,
        "path": str(path),
        "size_bytes": manifest.bytes,
        "quant": manifest.quant,
        "context": manifest.context,
        "licence": manifest.licence,
        "source": manifest.source,
        "sha256": [file.sha256 for file in manifest.files],
        "pulled_at": manifest.pulled_at,
    }
