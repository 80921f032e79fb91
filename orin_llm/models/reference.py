"""What names a model on the command line: a name, `hf:owner/repo[:QUANT]`, an address, a path."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from orin_llm.errors import ModelFileError, UsageError
from orin_llm.models.names import normalise

DEFAULT_QUANT = "Q4_K_M"
_NAMES_A_FILE = ("v", "version", "rev", "revision", "ref", "commit", "file", "path", "name", "id")
_REPO_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_QUANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")


@dataclass(frozen=True)
class NameReference:
    """A name of the registry or of the store."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class HubReference:
    """A file of a repository on a model hub.

    Attributes:
        repo: `owner/name`.
        quant: the wanted quantization; None where the user gave none.
        file: the exact file inside the repository; None where it is to be chosen by `quant`.
    """

    repo: str
    quant: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        if self.file:
            return f"hf:{self.repo}/{self.file}"
        return f"hf:{self.repo}:{self.quant or DEFAULT_QUANT}"


@dataclass(frozen=True)
class UrlReference:
    """An `https:` or `http:` address."""

    url: str

    def __str__(self) -> str:
        """The address; of its query, which may hold a secret, only what tells files apart."""
        parts = urlsplit(self.url)
        kept = [item for item in parse_qsl(parts.query) if item[0].lower() in _NAMES_A_FILE]
        return urlunsplit(parts._replace(query=urlencode(kept), fragment=""))


@dataclass(frozen=True)
class PathReference:
    """A file on this machine."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


Reference = NameReference | HubReference | UrlReference | PathReference


def parse(text: str) -> Reference:
    """Tell what kind of reference `text` is; nothing is looked up.

    Anything with a path separator, or that ends in `.gguf`, is a path; a bare word is a name.

    Raises:
        UsageError: an empty text, a malformed reference, or an address of another kind.
    """
    text = text.strip()
    if not text:
        raise UsageError("no model given: write a name such as smollm2, hf:owner/repo, or a path")
    if "\0" in text:
        raise UsageError("the model's name holds a NUL character")
    scheme = text.partition(":")[0].lower() if ":" in text else ""
    if scheme == "hf":
        return _parse_hub(text[3:])
    if scheme in ("http", "https"):
        return _parse_url(text)
    if scheme and "://" in text:
        raise UsageError(f"{text!r} cannot be fetched: {scheme}: is not supported, use https:")
    if "/" in text or text.startswith("~") or text.lower().endswith(".gguf"):
        return PathReference(Path(os.path.expanduser(text)))
    return NameReference(normalise(text))


def _parse_hub(text: str) -> HubReference:
    expected = "expected hf:owner/repo, hf:owner/repo:QUANT or hf:owner/repo/FILE.gguf"
    rest, colon, quant = text.lstrip("/").partition(":")
    owner, _, repo_and_file = rest.partition("/")
    repo, slash, file = repo_and_file.partition("/")
    if not _REPO_PART.fullmatch(owner) or not _REPO_PART.fullmatch(repo):
        raise UsageError(f"'hf:{text}' does not name a repository: {expected}")
    if colon and not _QUANT.fullmatch(quant):
        raise UsageError(f"'hf:{text}': {quant!r} is not a quantization: {expected}")
    if slash and (not file.lower().endswith(".gguf") or colon or ".." in file.split("/")):
        raise UsageError(f"'hf:{text}' does not name a .gguf file: {expected}")
    return HubReference(f"{owner}/{repo}", quant.upper() or None, file or None)


def _parse_url(text: str) -> UrlReference:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{text!r} is not an address: {error}") from None
    if not host or not parts.path.strip("/"):
        raise UsageError(f"{text!r} names no file: expected https://host/…/model.gguf")
    if parts.username or parts.password:
        raise UsageError(
            "an address with a user name or password in it is not fetched, because it would be "
            "kept: download the file by other means and pull it from its path"
        )
    if any(ord(c) <= 0x20 or ord(c) == 0x7F for c in text):
        raise UsageError(f"{text!r} is not an address: it holds blanks or control characters")
    return UrlReference(text)


def require_file(path: Path) -> Path:
    """`path`, if there is a file.

    Raises:
        ModelFileError: there is none, or it is a directory.
    """
    if path.is_dir():
        raise ModelFileError(f"{path} is a directory: name the .gguf file in it", path=str(path))
    if not path.exists():
        looks_like_repo = len(path.parts) == 2 and path.suffix != ".gguf" and not path.is_absolute()
        hint = f". A repository of a model hub is written hf:{path}" if looks_like_repo else ""
        raise ModelFileError(f"{path}: there is no such file{hint}", path=str(path))
    return path
