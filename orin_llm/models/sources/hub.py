"""Models on a model hub: huggingface_hub finds the file, the token and the cache.

Its own download starts over after an interruption, and leaves a second copy in its cache; so the
bytes are fetched by `http.download`, from the address and with the headers that it would use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from orin_llm.errors import OrinError, UsageError
from orin_llm.models import names, quants
from orin_llm.models.disk import link_or_copy
from orin_llm.models.reference import HubReference
from orin_llm.models.registry import HubFile, RegistryEntry
from orin_llm.models.reporter import Reporter
from orin_llm.models.sources import http
from orin_llm.models.sources.source import WantedFile


class HubSource:
    """A model of a repository, looked up on the hub, or in its cache where that is offline.

    Raises:
        UsageError: none or several files match; the message lists them.
        OrinError: the repository cannot be had.
    """

    def __init__(self, wanted: HubReference) -> None:
        self._repo = wanted.repo
        listing = _cached_listing(wanted.repo) if _is_offline() else _hub_listing(wanted.repo)
        self._commit, self.licence, self._remote = listing
        chosen = quants.choose(sorted(self._remote), wanted)
        self.files = tuple(self._wanted(path) for path in chosen)
        self._paths = dict(zip((file.name for file in self.files), chosen, strict=True))
        self.reference = str(quants.settled(wanted, chosen[0]))
        self.default_name = names.derive(self.files[0].name)

    def _wanted(self, path: str) -> WantedFile:
        size, sha256 = self._remote[path]
        return WantedFile(path.rpartition("/")[2], size, sha256)

    def fetch(self, file: WantedFile, target: Path, reporter: Reporter) -> None:
        """Take `file` from the hub's cache on this machine, else download it."""
        path = self._paths[file.name]
        cached = _cached(self._repo, path, self._commit, file.sha256)
        if cached is not None:
            reporter.message(f"{file.name} is in the hub's cache already")
            link_or_copy(cached, target, reporter, f"copying {file.name}")
            return
        from huggingface_hub import hf_hub_url

        wanted = http.HttpFile(
            hf_hub_url(self._repo, path, revision=self._commit),
            headers=_authorization(),
            bytes=file.bytes,
            verified=file.sha256 is not None,
        )
        try:
            http.download(wanted, target, reporter)
        except http.HttpRefused as error:
            if error.status in (401, 403):
                raise OrinError(_GATED.format(repo=self._repo)) from None
            raise


class PinnedHubSource(HubSource):
    """A registry entry on the hub: it must still be the file that the registry knows.

    Raises:
        OrinError: the repository holds another version by now.
    """

    def __init__(self, entry: RegistryEntry, place: HubFile) -> None:
        super().__init__(HubReference(place.repo, file=place.file))
        self.reference = entry.name
        self.default_name = entry.name
        self.licence = entry.licence
        (file,) = self.files
        if entry.sha256 and file.sha256 and entry.sha256 != file.sha256:
            raise OrinError(
                f"{place.repo} has replaced {place.file} since it was registered as {entry.name} "
                f"(its SHA-256 is {file.sha256}). To take the new file: "
                f"`orin-llm models pull hf:{place.repo}/{place.file}`"
            )
        self.files = (replace(file, sha256=file.sha256 or entry.sha256),)


Listing = tuple[str, str, dict[str, tuple[int | None, str | None]]]

_GATED = (
    "{repo} asks for its licence to be accepted: do so on its page on the hub, then set HF_TOKEN "
    "to a token of that account (or run `hf auth login`) and pull again"
)
_OFFLINE = (
    "HF_HUB_OFFLINE is set, and {repo} is not in the hub's cache on this machine: unset it to "
    "fetch the model"
)


@contextmanager
def hub_errors(repo: str) -> Iterator[None]:
    """Says of any error of huggingface_hub what to do about it, as an OrinError."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
    )

    try:
        yield
    except OrinError:
        raise
    except HFValidationError as error:
        raise UsageError(f"{repo!r} is no repository name: expected owner/name") from error
    except GatedRepoError:
        raise OrinError(_GATED.format(repo=repo)) from None
    except RepositoryNotFoundError:
        raise OrinError(
            f"the hub has no repository {repo}: check the spelling; a private one needs HF_TOKEN"
        ) from None
    except HfHubHTTPError as error:
        raise OrinError(f"the hub refuses {repo}: {_first_line(error)}") from None
    # What stands for "no connection" depends on the HTTP library that this huggingface_hub uses.
    except Exception as error:
        if _is_offline():
            raise OrinError(_OFFLINE.format(repo=repo)) from error
        raise OrinError(
            f"the model hub cannot be reached for {repo} ({_first_line(error)}). Is this machine "
            "on a network? HF_ENDPOINT names a mirror"
        ) from error


def _hub_listing(repo: str) -> Listing:
    """Commit, licence, and size and SHA-256 of each file, as the hub tells them."""
    from huggingface_hub import HfApi

    with hub_errors(repo):
        info = HfApi().model_info(repo, files_metadata=True)
    files: dict[str, tuple[int | None, str | None]] = {}
    for sibling in info.siblings or []:
        files[sibling.rfilename] = (sibling.size, sibling.lfs.sha256 if sibling.lfs else None)
    return info.sha or "main", _licence(info), files


def _cached_listing(repo: str) -> Listing:
    """The same from the hub's cache on this machine."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repos = [r for r in scan_cache_dir().repos if r.repo_id == repo and r.repo_type == "model"]
    except CacheNotFound:
        repos = []
    revisions = sorted(
        (revision for r in repos for revision in r.revisions),
        key=lambda revision: ("main" in revision.refs, revision.last_modified),
    )
    if not revisions:
        raise OrinError(_OFFLINE.format(repo=repo))
    newest = revisions[-1]
    files: dict[str, tuple[int | None, str | None]] = {}
    for file in newest.files:
        path = str(file.file_path.relative_to(newest.snapshot_path))
        files[path] = (file.size_on_disk, None)
    return newest.commit_hash, "", files


def _cached(repo: str, path: str, commit: str, sha256: str | None) -> Path | None:
    """The file in the hub's cache, if it is the same version; blobs are named by their SHA-256."""
    from huggingface_hub import try_to_load_from_cache

    for revision in (commit, "main"):
        found = try_to_load_from_cache(repo, path, revision=revision)
        if isinstance(found, str):
            blob = Path(found).resolve()
            if revision == commit or (sha256 is not None and blob.name == sha256):
                return blob
    return None


def _authorization() -> dict[str, str]:
    from huggingface_hub import constants, get_token

    token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    return {"Authorization": f"Bearer {token}"} if token else {}


def _is_offline() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def _licence(info: Any) -> str:
    card = info.card_data.to_dict() if info.card_data else {}
    licence = card.get("license")
    if licence == "other":
        licence = card.get("license_name") or licence
    if not licence:
        tags = [t.removeprefix("license:") for t in info.tags or [] if t.startswith("license:")]
        licence = tags[0] if tags else ""
    return ", ".join(licence) if isinstance(licence, list) else str(licence)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
