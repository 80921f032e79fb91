"""A question before something is lost."""

from __future__ import annotations

import sys

from orin_llm.errors import UsageError


def confirmed(question: str) -> bool:
    """Ask on the terminal; UsageError where there is none, naming --yes."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("there is no terminal to ask on: say --yes to remove without a question")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
