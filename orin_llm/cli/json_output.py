"""What commands print with --json."""

from __future__ import annotations

from orin_llm.host.strict_json import strict_json


def print_json(value: object) -> None:
    """On stdout, indented."""
    print(strict_json(value, indent=2))
