"""Which format a report is printed in: `-o FORMAT`, or `--json`."""

from __future__ import annotations

from collections.abc import Collection

import typer

from orin_llm.errors import UsageError


def chosen_layout(ctx: typer.Context, output: str, as_json: bool, layouts: Collection[str]) -> str:
    """The layout: of two that contradict, the one on the command line.

    Args:
        ctx: of a command whose parameters are called `output` and `as_json`.
        layouts: the names that there are, `json` among them.

    Raises:
        UsageError: both are on the command line, or there is none of that name.
    """
    sources = {name: ctx.get_parameter_source(name) for name in ("output", "as_json")}
    written = {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}
    if not as_json or written == {"output"}:
        if output not in layouts:
            raise UsageError(f"no output format {output!r}: choose one of {', '.join(layouts)}")
        return output
    if "output" in written and output != "json":
        raise UsageError(f"--json and -o {output} contradict: choose one of them")
    return "json"
