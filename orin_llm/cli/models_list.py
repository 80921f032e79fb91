"""`orin-llm models list`: what is in the store and, with --all, what could be."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_llm.errors import ModelFileError
from orin_llm.models.manifest import Manifest
from orin_llm.models.names import DEFAULT_MODEL
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

    def show(self) -> None:
        """A table on stdout; what needs attention on stderr."""
        from orin_llm.cli.models_view import print_table

        rows = self._rows()
        if rows:
            print_table(["NAME", "SIZE", "QUANT", "CONTEXT", "FROM"], rows)
        for line in self._notes():
            print(line, file=sys.stderr)

    def _path(self, manifest: Manifest) -> Path:
        return self.store.folder(manifest.name) / manifest.files[0].name

    def _rows(self) -> list[list[str]]:
        from orin_llm.host.units import size_text

        rows = []
        for m in self.stored:
            origin = "registry" if m.source == m.name else m.source
            rows.append([m.name, size_text(m.bytes), m.quant, _tokens(m.context), origin])
        rows += [[name, "?", "?", "?", "damaged"] for name in self.damaged]
        for e in self.offered:
            rows.append([e.name, size_text(e.bytes), e.quant, _tokens(e.context), "not pulled"])
        return rows

    def _notes(self) -> list[str]:
        from orin_llm.host.units import size_text

        notes = [f"damaged: {problem}" for problem in self.damaged.values()]
        if not self.stored and not self.damaged:
            notes.append(
                f"no models yet: `orin-llm models pull {DEFAULT_MODEL}` fetches the default "
                "one, `orin-llm models list --all` shows what there is"
            )
        for partial in self.store.partials():
            notes.append(
                f"unfinished: {partial.name}, {size_text(partial.bytes)} so far (pull it again to "
                "go on, or rm it)"
            )
        loose = self.store.loose_files()
        if loose:
            notes.append(
                f"{len(loose)} .gguf files in {self.store.root} are not part of the store: run "
                "them by their path, or add them with `orin-llm models pull PATH`"
            )
        return notes


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


def _tokens(context: int) -> str:
    return str(context) if context else "?"
