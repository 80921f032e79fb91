"""`orin-llm explain`: the entries of the fault guide that fit a symptom or an error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orin_llm.cli.json_output import print_json
from orin_llm.cli.options import flag
from orin_llm.errors import OrinError, UsageError

if TYPE_CHECKING:
    from orin_llm.explain.guide import Entry
    from orin_llm.explain.search import Fit

OUTPUT = "Output"
_MOST_BYTES_OF_A_LINE = 8192  # no message is longer; what is goes on as the next line
_MOST_LINES = 1 << 20  # different ones
# Where logs of JSON lines have their words: those of others, and those of `monitor --headless`.
_SAYING = ("message", "msg", "error", "reason", "text")


def explain(
    symptom: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SYMPTOM",
            help="What is wrong, in words; an error as it was printed; or the name of an entry. If "
            "not given, or -: the lines of standard input, such as a log.",
            show_default=False,
        ),
    ] = None,
    *,
    names: Annotated[
        bool, flag("--list", panel=OUTPUT, help="Name all entries of the guide.")
    ] = False,
    as_json: Annotated[bool, flag("--json", panel=OUTPUT, help="Print one JSON object.")] = False,
) -> None:
    """Say what a symptom or an error means: what to look for in the log, in a trace and in the
    sensors, and the fix.

    The guide is docs/troubleshooting.md. Exit code 1: nothing in it fits.
    """
    from orin_llm.cli.explain_view import print_fits, print_names
    from orin_llm.explain.guide import read_guide

    guide = read_guide()
    given = symptom or []
    if given and not " ".join(given).strip():
        raise UsageError("the symptom is empty: say what is wrong, or --list")
    if names or not (given or _is_piped()):
        if given:
            raise UsageError("--list names all entries: leave out the symptom, or the flag")
        if as_json:
            print_json({"entries": [entry.to_json() for entry in guide]})
        else:
            print_names(guide)
        return
    from_stdin = given in ([], ["-"])
    fits = _find(guide, " ".join(given), from_stdin)
    if as_json:
        print_json({"entries": [_fit_json(fit) for fit in fits]})
    elif fits:
        print_fits(fits, with_line=from_stdin)
    if not fits:
        what = "what came in" if from_stdin else f"{' '.join(given)!r}"
        raise OrinError(
            f"nothing in the guide fits {what}. `orin-llm explain --list` names its entries; "
            "`orin-llm doctor` looks at this machine"
        )


def _find(guide: Sequence[Entry], text: str, from_stdin: bool) -> list[Fit]:
    from orin_llm.explain.search import Fit, Index

    index = Index(guide)
    if from_stdin:
        return index.find(_input_lines())
    if entry := index.named(text):
        return [Fit(entry, 0.0, text)]
    return index.find(text.splitlines())


def _is_piped() -> bool:
    """Whether something other than a terminal is on standard input."""
    return sys.stdin is not None and not sys.stdin.isatty()


def _input_lines() -> Iterator[str]:
    """Different lines of standard input, whatever their encoding."""
    if sys.stdin is None:
        raise UsageError("standard input is closed: give the symptom as an argument")
    seen = set[bytes]()
    while line := sys.stdin.buffer.readline(_MOST_BYTES_OF_A_LINE):
        if line not in seen and len(seen) < _MOST_LINES:
            seen.add(line)
            yield from said(line.decode("utf-8", "replace").strip())


def said(line: str) -> Iterator[str]:
    """What a line of a log says: all of it; of one with a JSON object what stands for people.

    An alert of the monitor that has ended is no symptom.
    """
    opened = re.search(r"\{.*", line)
    try:
        value = json.loads(opened[0]) if opened else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        yield line
    elif value.get("event") != "cleared":
        problems = value.get("problems")
        texts = [value.get(key) for key in _SAYING]
        texts += problems.values() if isinstance(problems, dict) else ()
        yield from (text for text in texts if isinstance(text, str))


def _fit_json(fit: Fit) -> dict[str, Any]:
    return {**fit.entry.to_json(), "score": round(fit.score, 1), "line": fit.line}
