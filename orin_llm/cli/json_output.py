"""What commands print with --json."""

from __future__ import annotations

import json


def print_json(value: object) -> None:
    """On stdout, indented."""
    print(json.dumps(value, indent=2))
