"""TOML files that users write, read within bounds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from orin_llm.errors import UsageError

MAX_FILE_BYTES = 1 << 20


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file.

    Raises:
        UsageError: it cannot be read, is too long, not UTF-8 or not TOML; the message names it.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return parse_toml(content, str(path))


def parse_toml(content: bytes, where: str) -> dict[str, Any]:
    """The tables in `content`; UsageError, which calls it `where`, as `read_toml`."""
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"{where} is too long: at most {MAX_FILE_BYTES} bytes are read")
    try:
        return _loads(content.decode())
    except UnicodeDecodeError as error:
        raise UsageError(f"{where} is not UTF-8: byte {error.start}") from error
    except (ValueError, RecursionError) as error:  # also a number of too many digits
        raise UsageError(f"{where} is not TOML: {error}") from error


def _loads(text: str) -> dict[str, Any]:
    # Here, not above: scripts begin under a Python into which nothing was installed.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ModuleNotFoundError:
            from pip._vendor import tomli as tomllib
    tables: dict[str, Any] = tomllib.loads(text)
    return tables
