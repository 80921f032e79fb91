"""The `orin-llm` command: which subcommands there are. None is imported before it is used."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.main import get_command, get_group

from orin_llm import __version__
from orin_llm.cli.errors import (
    INTERRUPTED,
    ExitCodeGroup,
    close_before_ending,
    discard_output,
    exit_code_of,
    print_error,
    reserve_standard_streams,
)
from orin_llm.cli.help import FoldingCommand


@dataclass(frozen=True)
class Subcommand:
    """Where a subcommand lives: a function, or a Typer app, under `attribute` of `module`."""

    module: str
    attribute: str
    panel: str
    summary: str


TALK, MODELS, MACHINE = "Talk to a model", "Models", "This machine"

SUBCOMMANDS = {
    "run": Subcommand("orin_llm.cli.run", "run", TALK, "Answer one prompt and exit."),
    "chat": Subcommand("orin_llm.cli.chat", "chat", TALK, "Talk with a model, turn by turn."),
    "models": Subcommand(
        "orin_llm.cli.models", "app", MODELS, "Fetch, list, inspect and remove models."
    ),
    "quantize": Subcommand(
        "orin_llm.cli.quantize", "quantize", MODELS, "Write a model with fewer bits a weight."
    ),
    "imatrix": Subcommand(
        "orin_llm.cli.imatrix", "imatrix", MODELS, "Learn from a text what quantizing should keep."
    ),
    "bench": Subcommand("orin_llm.cli.bench", "bench", MACHINE, "Measure speed and memory."),
    "tune": Subcommand("orin_llm.cli.tune", "tune", MACHINE, "Find the fastest settings here."),
    "profile": Subcommand(
        "orin_llm.cli.profile", "app", MACHINE, "List, show and exchange tuned settings."
    ),
    "accept": Subcommand(
        "orin_llm.cli.accept", "accept", MACHINE, "Check a model before it is delivered."
    ),
    "trace": Subcommand(
        "orin_llm.cli.trace", "trace", MACHINE, "Write a timeline of one run, and a picture of it."
    ),
    "estimate": Subcommand(
        "orin_llm.cli.estimate", "estimate", MODELS, "Work out speed and memory on a board."
    ),
    "perplexity": Subcommand(
        "orin_llm.cli.perplexity", "perplexity", MODELS, "Judge a model by a text."
    ),
    "compare": Subcommand(
        "orin_llm.cli.compare", "compare", MODELS, "Compare a model with a reference on a text."
    ),
    "monitor": Subcommand(
        "orin_llm.cli.monitor", "monitor", MACHINE, "Watch the board and its engines."
    ),
    "setup": Subcommand("orin_llm.cli.setup", "app", MACHINE, "Set the board up for the toolkit."),
    "doctor": Subcommand(
        "orin_llm.cli.doctor", "doctor", MACHINE, "Say what was built, what was found and why."
    ),
    "explain": Subcommand(
        "orin_llm.cli.explain", "explain", MACHINE, "Say what a symptom or an error means."
    ),
}


# Subcommands of two words, beside others that take the second word as an argument.
TWO_WORDS = {
    "bench serve": Subcommand(
        "orin_llm.cli.bench_serve", "bench_serve", MACHINE, "Put a load on a server."
    ),
    "bench show": Subcommand(
        "orin_llm.cli.bench_show", "bench_show", MACHINE, "Show a report of bench again."
    ),
    "trace summarize": Subcommand(
        "orin_llm.cli.trace_summarize", "summarize", MACHINE, "Sum up an export of Nsight Systems."
    ),
}


class LazyGroup(ExitCodeGroup):
    """Lists subcommands by their summary alone; imports the one that is run or completed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        two = " ".join(args[:2])
        if two in TWO_WORDS:
            return two, _load(two, TWO_WORDS[two]), args[2:]
        if args and args[0] in SUBCOMMANDS:
            self.commands[args[0]] = _load(args[0], SUBCOMMANDS[args[0]])
        return super().resolve_command(ctx, args)


def _load(name: str, place: Subcommand) -> Any:
    target = getattr(importlib.import_module(place.module), place.attribute)
    if isinstance(target, typer.Typer):
        command: Any = get_group(target)
    else:
        single = typer.Typer(add_completion=False)
        single.command(name, cls=FoldingCommand, context_settings=HELP_NAMES)(target)
        command = get_command(single)
    command.name = name
    return command


def _version(wanted: bool) -> None:
    if wanted:
        print(f"orin-llm {__version__}")
        raise typer.Exit


HELP_NAMES = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="orin-llm",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP_NAMES,
)


@app.callback()
def orin_llm(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Run quantized language models on the device."""


def _register(name: str, place: Subcommand) -> None:
    @app.command(name, help=place.summary, rich_help_panel=place.panel)
    def listed_only() -> None:
        """Replaced by `LazyGroup.resolve_command` before it could run."""


for _name, _place in SUBCOMMANDS.items():
    _register(_name, _place)


def main() -> None:
    """Run the command line and leave with the command's exit code."""
    reserve_standard_streams()
    close_before_ending()
    try:
        app(prog_name="orin-llm")
    except KeyboardInterrupt:  # before or after the part that ExitCodeGroup guards
        sys.exit(INTERRUPTED)
    except OSError as error:  # help that cannot be written
        print_error(error)
        sys.exit(exit_code_of(error))
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            discard_output()
