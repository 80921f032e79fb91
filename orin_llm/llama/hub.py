"""Files of Hugging Face repositories, for Llama.from_pretrained."""

from __future__ import annotations

from fnmatch import fnmatch
from os import PathLike
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download

from orin_llm.errors import UsageError
from orin_llm.models.sources.hub import hub_errors


def fetch(
    repo_id: str,
    filename: str,
    *,
    local_dir: str | PathLike[str] | None = None,
    cache_dir: str | PathLike[str] | None = None,
) -> str:
    """Download a file that is not here yet; return its path.

    Args:
        filename: its name in the repository, or a pattern that exactly one name fits.

    Raises:
        UsageError: the repository's name is malformed, or not exactly one file fits.
        OrinError: it cannot be fetched.
    """
    with hub_errors(repo_id):
        if any(character in filename for character in "*?["):
            filename = _only_match(repo_id, filename)
        return hf_hub_download(
            repo_id,
            filename,
            local_dir=None if local_dir is None else Path(local_dir),
            cache_dir=None if cache_dir is None else Path(cache_dir),
        )


def _only_match(repo_id: str, pattern: str) -> str:
    # Unlike list_repo_files, this does not try for a minute where there is no network.
    names = [file.rfilename for file in HfApi().model_info(repo_id).siblings or ()]
    matches = [name for name in names if fnmatch(name, pattern)]
    if len(matches) == 1:
        return matches[0]
    files = ", ".join(matches or [name for name in names if name.endswith(".gguf")]) or "no .gguf"
    count = f"{len(matches)} files" if matches else "no file"
    raise UsageError(f"{count} of {repo_id} fit {pattern!r}, expected one; there are: {files}")
