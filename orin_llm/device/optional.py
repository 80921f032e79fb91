"""Packages that need not be installed, and may be of any version."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from orin_llm.device.source import SourceUnavailable


def optional_module(name: str, package: str) -> Any:
    """The module, without what it warns of while it is imported: that is for its developers.

    Raises:
        SourceUnavailable: the package is not installed, or broken.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        if error.name in (name, None):
            raise SourceUnavailable(f"{package} is not installed") from None
        raise SourceUnavailable(f"{package} cannot be used: {one_line(error)}") from None
    except Exception as error:
        raise SourceUnavailable(f"{package} cannot be used: {one_line(error)}") from None


def one_line(error: BaseException) -> str:
    """What an error of such a package says, or else what it is."""
    return " ".join(str(error).split())[:300] or type(error).__name__
