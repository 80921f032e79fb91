"""The model store: one folder per model in the user's data directory, made visible all at once.

models/NAME/manifest.json + NAME's .gguf file or files
models/.partial/NAME/      what an unfinished pull has so far
models/.locks/NAME         held while a model is pulled or removed
"""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from orin_llm.errors import ModelFileError, OrinError
from orin_llm.host.disk import folder_bytes
from orin_llm.host.locking import OnWait, file_lock
from orin_llm.models import reference
from orin_llm.models.manifest import MANIFEST, Manifest
from orin_llm.models.names import normalise
from orin_llm.models.reference import HubReference, NameReference, PathReference


def default_root() -> Path:
    """Where models are kept: `ORIN_LLM_MODELS`, else `orin-llm/models` in the data directory."""
    chosen = os.environ.get("ORIN_LLM_MODELS")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return data_folder() / "models"


def data_folder() -> Path:
    """The program's folder in the user's data directory."""
    data = os.environ.get("XDG_DATA_HOME", "")
    base = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return base / "orin-llm"


@dataclass(frozen=True)
class Partial:
    """An unfinished pull: the name it is for, and the bytes that are here already."""

    name: str
    bytes: int


class Store:
    """The models in one folder. Making one touches nothing on disk."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()

    def folder(self, name: str) -> Path:
        """Where model `name` is, or would be. Raises UsageError for what cannot be a name."""
        return self.root / normalise(name)

    def partial_folder(self, name: str) -> Path:
        """Where an unfinished pull of `name` keeps its files."""
        return self.root / ".partial" / normalise(name)

    def names(self) -> list[str]:
        """Names of all models here, damaged ones too, sorted."""
        try:
            entries = list(self.root.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error) from None
        return sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir())

    def partials(self) -> list[Partial]:
        """Unfinished pulls, sorted by name."""
        found = []
        for folder in sorted(self.root.glob(".partial/*")):
            found.append(Partial(folder.name, folder_bytes(folder)))
        return found

    def loose_files(self) -> list[str]:
        """Names of .gguf files that lie in the store's folder without belonging to a model."""
        return sorted(f.name for f in self.root.glob("*.gguf") if f.is_file())

    def has(self, name: str) -> bool:
        """Is there a model of that name (a damaged one counts)?"""
        return self.folder(name).is_dir()

    def manifest(self, name: str) -> Manifest:
        """The record of model `name`.

        Raises:
            ModelFileError: there is no such model, or its record is damaged.
        """
        folder = self.folder(name)
        if not folder.is_dir():
            raise ModelFileError(self.missing(name), path=name)
        return Manifest.read(folder)

    def path(self, name: str) -> Path:
        """The file to load for model `name`: its only one, or the first part."""
        manifest = self.manifest(name)
        path = self.folder(name) / manifest.files[0].name
        if not path.is_file():
            raise ModelFileError(
                f"{path} is gone, though the store lists {name}: remove the model with "
                f"`orin-llm models rm {name}` and pull it again",
                path=str(path),
            )
        return path

    def find_by_source(self, source: str) -> str | None:
        """Name of the model that was pulled by that reference, or None."""
        return next((name for name, found in self._sources() if found == source), None)

    def only_of(self, repo: str) -> str | None:
        """Name of the only model here from that repository of the hub; None if not just one."""
        begins = (f"hf:{repo}:", f"hf:{repo}/")
        found = [name for name, source in self._sources() if source.startswith(begins)]
        return found[0] if len(found) == 1 else None

    def _sources(self) -> Iterator[tuple[str, str]]:
        for name in self.names():
            try:
                yield name, self.manifest(name).source
            except ModelFileError:
                continue

    @contextmanager
    def locked(self, name: str, on_wait: OnWait | None = None) -> Iterator[None]:
        """Hold the model's lock, between processes too; `on_wait` is called if another has it."""
        path = self.root / ".locks" / normalise(name)
        with ExitStack() as stack:
            try:
                stack.enter_context(file_lock(path, on_wait))
            except OSError as error:
                raise self._unusable(error) from None
            yield

    def make_partial(self, name: str) -> Path:
        """Create the folder of an unfinished pull and return it. Call with the lock held."""
        folder = self.partial_folder(name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from None
        return folder

    def publish(self, name: str) -> None:
        """Make a finished pull visible under its name, at once. Call with the lock held."""
        partial = self.partial_folder(name)
        for file in partial.iterdir():
            with open(file, "rb") as handle:
                os.fsync(handle.fileno())
        os.rename(partial, self.folder(name))

    def discard_partial(self, name: str) -> None:
        """Throw away what an unfinished pull left. Call with the lock held."""
        shutil.rmtree(self.partial_folder(name), ignore_errors=True)

    def remove(self, name: str) -> int:
        """Remove model `name` and any unfinished pull of it; returns the bytes freed.

        Raises:
            ModelFileError: there is neither.
        """
        folder, partial = self.folder(name), self.partial_folder(name)
        if not folder.is_dir() and not partial.is_dir():
            raise ModelFileError(self.missing(name), path=name)
        with self.locked(name):
            freed = folder_bytes(folder) + folder_bytes(partial)
            if folder.is_dir():
                # The record goes first: an interrupted removal must not look like a whole model.
                (folder / MANIFEST).unlink(missing_ok=True)
                shutil.rmtree(folder)
            self.discard_partial(name)
        return freed

    def missing(self, name: str) -> str:
        """What to tell a user who asks for a model that is not here."""
        from orin_llm.models.registry import registry

        known = registry()
        name = name.strip().lower()
        if name in known:
            return f"{name} is not in the store yet: fetch it with `orin-llm models pull {name}`"
        close = difflib.get_close_matches(name, {*self.names(), *known}, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return (
            f"there is no model {name!r} in the store or the registry{hint} "
            "(`orin-llm models list --all` shows both)"
        )

    def _unusable(self, error: OSError) -> OrinError:
        return OrinError(
            f"the model store {self.root} cannot be used: {error.strerror or error}. "
            "ORIN_LLM_MODELS names another folder"
        )


def resolve(name_or_path: str, store: Store | None = None) -> Path:
    """The file to load for a stored name, the reference a model was pulled by, or a path.

    Nothing is fetched.

    Raises:
        UsageError: `name_or_path` can be none of these.
        ModelFileError: it is not here; the message says how to pull it.
    """
    store = store or Store()
    wanted = reference.parse(name_or_path)
    if isinstance(wanted, NameReference):
        if not store.has(wanted.name) and Path(name_or_path).is_file():
            return Path(name_or_path)
        return store.path(wanted.name)
    if isinstance(wanted, PathReference):
        return reference.require_file(wanted.path)
    name = store.find_by_source(str(wanted))
    if name is None and isinstance(wanted, HubReference) and not (wanted.quant or wanted.file):
        name = store.only_of(wanted.repo)
    if name is None:
        raise ModelFileError(
            f"{wanted} is not in the store: fetch it with `orin-llm models pull {name_or_path}`",
            path=name_or_path,
        )
    return store.path(name)
