"""Names of stored models: what is a name, and the name that a file or an address gets."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from orin_llm.errors import UsageError

DEFAULT_MODEL = "smollm2"
MAX_NAME_CHARS = 96
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


def normalise(name: str) -> str:
    """The stored form of a name that a user typed: lower case, without surrounding blanks.

    A name becomes one folder of the store, so nothing that could leave that folder is accepted.

    Raises:
        UsageError: for anything but letters, digits, `.`, `_`, `-`, beginning with one of the
            first two, at most 96 characters.
    """
    text = name.strip().lower()
    if not text:
        raise UsageError("the model's name is empty: give one such as smollm2")
    if len(text) > MAX_NAME_CHARS:
        raise UsageError(
            f"the model's name has {len(text)} characters: at most {MAX_NAME_CHARS} are allowed"
        )
    if not _NAME.fullmatch(text):
        raise UsageError(
            f"{name!r} cannot name a model: expected letters, digits, '.', '_' and '-', "
            "beginning with a letter or a digit"
        )
    return text


def derive(text: str) -> str:
    """A valid name made from the name of a file: `Qwen3-8B-Q4_K_M.gguf` → `qwen3-8b-q4_k_m`.

    Raises:
        UsageError: when no letter or digit is left to make a name of.
    """
    stem = re.sub(r"\.gguf$", "", text.strip(), flags=re.IGNORECASE)
    stem = re.sub(r"-\d{5}-of-\d{5}$", "", stem)
    cleaned = re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).lstrip("._-").rstrip("-")
    if not cleaned:
        raise UsageError(f"no model name can be made of {text!r}: choose one with --name")
    return cleaned[:MAX_NAME_CHARS]


def derive_from_url(url: str) -> str:
    """The name for the file behind an address: its last path component."""
    return derive(unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2])
