"""`orin-llm setup`: what would be changed on a Jetson, changing it, and taking it back."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.json_output import print_json
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.root_option import Root
from orin_llm.errors import DeviceUnavailable, OrinError

if TYPE_CHECKING:
    from orin_llm.device.board import Board
    from orin_llm.device.setup.change import Change
    from orin_llm.device.setup.system import System

app = typer.Typer(
    name="setup",
    help="Set the board up: power mode, clocks, swap, fan, services. Never reboots.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


@dataclass(frozen=True)
class WhatOptions:
    """What is to be brought about."""

    mode: Annotated[
        str, typer.Option("--mode", help="Power mode, by name: MAXN, 50W, MODE_30W …")
    ] = "MAXN"
    fan: Annotated[str, typer.Option("--fan", help="Profile of the fan.")] = "cool"
    swap_gb: Annotated[
        int, typer.Option("--swap-gb", min=1, help="Size of the swap file on the NVMe drive.")
    ] = 16
    user: Annotated[
        str | None,
        typer.Option("--user", help="Who runs the toolkit; if not given, who called sudo."),
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CHANGE", help="Only this change; repeatable."),
    ] = None
    skip: Annotated[
        list[str] | None,
        typer.Option("--skip", metavar="CHANGE", help="Not this change; repeatable."),
    ] = None

    def changes(self, board: Board) -> tuple[Change, ...]:
        """The changes that were chosen; UsageError for a name that none has."""
        from orin_llm.device.setup.catalogue import SetupChoices, all_changes, select

        user = self.user or os.environ.get("SUDO_USER") or os.environ.get("USER", "")
        choices = SetupChoices(
            mode=self.mode,
            fan=self.fan,
            swap_bytes=self.swap_gb * 10**9,
            user="" if user == "root" else user,
            program=str(Path(sys.executable).with_name("orin-llm")),
        )
        return select(all_changes(choices, board), self.only or (), self.skip or ())


@app.command("plan")
@with_option_groups
def plan_setup(*, what: WhatOptions, as_json: Json = False, root: Root = Path("/")) -> None:
    """Show exactly what apply would change. Changes nothing, needs no root."""
    from orin_llm.cli.setup_view import print_plan
    from orin_llm.device.setup.plan import make_plan
    from orin_llm.device.setup.system import System

    system, board = System(root), _board(root)
    steps = make_plan(system, what.changes(board))
    if as_json:
        print_json({"board": board.name, "changes": [s.to_json() for s in steps]})
    else:
        print_plan(steps)


@app.command("apply")
@with_option_groups
def apply_setup(
    *, what: WhatOptions, as_json: Json = False, quiet: Quiet = False, root: Root = Path("/")
) -> None:
    """Make the changes, all or none; the state before is recorded for revert. Needs root."""
    from orin_llm.cli.setup_view import print_outcome, print_problems
    from orin_llm.device.setup.apply import apply
    from orin_llm.device.setup.lock import system_locked
    from orin_llm.device.setup.plan import make_plan
    from orin_llm.device.setup.signals import signals_held
    from orin_llm.device.setup.snapshot import SNAPSHOT

    system = _system(root, "apply")
    changes = what.changes(_board(root))
    with system_locked(system, "apply") as system:
        steps = make_plan(system, changes)
        impossible = [f"{step.change.name}: {step.problem}" for step in steps if step.problem]
        if what.only and impossible:  # asked for by name: leaving it out would not do
            raise OrinError(f"nothing was changed. Not possible: {'; '.join(impossible)}")
        with signals_held(notice=not quiet) as request:
            outcome = apply(system.stopped_by(request.check), steps, _reporter(quiet))
    if as_json:
        problems = {step.change.name: step.problem for step in steps if step.problem}
        report = {**outcome.to_json(), "not_possible": problems, "snapshot": SNAPSHOT}
        print_json(report)
        return
    print_problems(steps)
    print_outcome(outcome, "changed")


@app.command("revert")
def revert_setup(as_json: Json = False, quiet: Quiet = False, root: Root = Path("/")) -> None:
    """Restore the state before the setup. Needs root."""
    from orin_llm.cli.setup_view import print_outcome
    from orin_llm.device.setup.apply import revert
    from orin_llm.device.setup.lock import system_locked
    from orin_llm.device.setup.signals import signals_held

    system = _system(root, "revert")
    changes = WhatOptions().changes(_board(root))
    with (
        system_locked(system, "revert") as system,
        signals_held(notice=not quiet) as request,
    ):
        outcome = revert(system.stopped_by(request.check), changes, _reporter(quiet))
    if as_json:
        print_json(outcome.to_json())
    else:
        print_outcome(outcome, "restored")


def _board(root: Path) -> Board:
    from orin_llm.device.board import read_board

    board = read_board(root)
    if not board.is_jetson:
        raise DeviceUnavailable(f"this is a {board.name}: the setup is for Jetson boards")
    return board


def _system(root: Path, command: str) -> System:
    from orin_llm.device.setup.system import System

    system = System(root)
    if not system.may_change:
        program = Path(sys.executable).with_name("orin-llm")
        raise OrinError(
            f"setup {command} changes the system: run `sudo {program} setup {command}`. "
            "`orin-llm setup plan` shows what it would change, without root"
        )
    return system


def _reporter(quiet: bool) -> Callable[[str], None]:
    def report(line: str) -> None:
        if not quiet:
            with suppress(OSError):  # a terminal that was closed must not stop the taking back
                print(line, file=sys.stderr, flush=True)

    return report
