"""The checkout that is checked, and the model that it is checked with."""

from __future__ import annotations

import sys
from pathlib import Path

from orin_llm.errors import OrinError
from orin_llm.host.repository import commit
from orin_llm.models.names import DEFAULT_MODEL
from orin_llm.models.store import resolve

ROOT = Path(__file__).resolve().parents[2]
# A program for any Python that has the extension module: what that was built with, as JSON.
BUILD_INFO = "import json; from orin_llm import _native; print(json.dumps(_native.build_info()))"


def commit_of_checkout() -> str | None:
    """None where it has no repository."""
    return commit(ROOT / "orin_llm")


def python(module: str, *arguments: str) -> list[str]:
    """A command that runs a module of it."""
    return [sys.executable, "-m", module, *arguments]


def default_model() -> Path | None:
    """The default model where it has been pulled: nothing is fetched here."""
    try:
        return resolve(DEFAULT_MODEL)
    except OrinError:
        return None
