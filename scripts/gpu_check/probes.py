"""Parts of the extension module that are there for tests and measurements alone."""

from __future__ import annotations

import importlib
from typing import Any


def probes() -> Any:
    """`_native.testing`; cpp/bindings says what it has."""
    return importlib.import_module("orin_llm._native").testing
