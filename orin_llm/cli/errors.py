"""From exceptions to what a shell sees: one message on stderr and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from orin_llm.errors import OrinError

INTERRUPTED = 130


class ExitCodeGroup(TyperGroup):
    """Runs a subcommand; an error raised on purpose ends as `error: …` and its exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader (`| head`) has what it wanted
            discard_output()
            raise typer.Exit(1) from None
        except (OrinError, OSError) as error:
            print_error(error)
            raise typer.Exit(exit_code_of(error)) from None


def exit_code_of(error: OrinError | OSError) -> int:
    """The exit code that an error ends a command with."""
    return error.exit_code if isinstance(error, OrinError) else 1


def print_error(error: BaseException) -> None:
    """One `error: …` on stderr; the text of an OSError without its number."""
    from orin_llm.cli.render import visible

    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        message = f"{where}{error.strerror}"
    print(f"error: {visible(message)}", file=sys.stderr, flush=True)


def close_before_ending() -> None:
    """Let SIGTERM and SIGHUP unwind the program, so that engines and tools are closed.

    The exit code is what a shell gives a process that the signal has killed.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, leave)


def discard_output() -> None:
    """Point stdout at nothing, so that the interpreter's last flush cannot fail."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def reserve_standard_streams() -> None:
    """Give a closed standard stream the null device: no file opened later may get its number.

    `sys.stdin` stays None if it was closed, so that what reads it can say so.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            if name != "stdin":
                setattr(sys, name, os.fdopen(number, "w", closefd=False))
