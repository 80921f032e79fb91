"""`orin-llm doctor`: what was built, what the machine has, what hurts, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orin_llm.cli.json_output import print_json
from orin_llm.cli.options import flag
from orin_llm.cli.root_option import Root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orin_llm.device.probes.load import UnderLoad
    from orin_llm.doctor.finding import Finding
    from orin_llm.doctor.machine import Machine
    from orin_llm.models.store import Store

WHAT, OUTPUT = "What to check", "Output"


def doctor(
    model: Annotated[
        str | None,
        typer.Argument(
            help="Model that is to run: a name in the store, or a path; the default one if it is "
            "there.",
            show_default=False,
        ),
    ] = None,
    *,
    ctx_size: Annotated[
        int,
        flag(
            "-c",
            "--ctx-size",
            panel=WHAT,
            min=0,
            help="Tokens of context; 0: the model's, at most 8192.",
        ),
    ] = 0,
    no_load: Annotated[
        bool,
        flag("--no-load", panel=WHAT, help="Put neither the memory nor the disk under load."),
    ] = False,
    as_json: Annotated[bool, flag("--json", panel=OUTPUT, help="Print one JSON object.")] = False,
    root: Root = Path("/"),
) -> None:
    """Say what was built, what this machine has, what hurts, and what to do about it.

    Exit code 0: nothing hurts; 1: something costs speed or memory, or will fail; 4: something that
    is needed is missing.
    """
    from orin_llm.cli.doctor_view import StepLine, print_doctor
    from orin_llm.doctor.catalogue import check
    from orin_llm.doctor.finding import exit_code
    from orin_llm.doctor.look import look
    from orin_llm.models.store import Store

    with StepLine() as line:
        machine = look(root, model, ctx_size, load=not no_load, report=line.show)
    findings, store = check(machine), Store()
    if as_json:
        print_json(report(machine, store, findings))
    else:
        print_doctor(machine, store, findings)
    if code := exit_code(findings):
        raise typer.Exit(code)


def report(machine: Machine, store: Store, findings: Sequence[Finding]) -> dict[str, Any]:
    """For `--json`."""
    from orin_llm.doctor.finding import exit_code
    from orin_llm.explain.guide import entries_of_check

    def with_entries(finding: Finding) -> dict[str, Any]:
        names = [entry.name for entry in entries_of_check(finding.check)]
        return {**finding.to_json(), "explain": names}

    power, model = machine.power, machine.model
    return {
        "usable": exit_code(findings) != 4,
        "build": machine.build.to_json(),
        "board": machine.board.to_json(),
        "cpu": machine.cpu.to_json(),
        "gpus": [gpu.to_json() for gpu in machine.gpus.usable],
        "gpu_problem": machine.gpus.problem,
        "memory": machine.memory.to_json(),
        "power_mode": power.now.to_json() if power.now else None,
        "caps": machine.caps.to_json(),
        "cuda": machine.cuda.to_json() if machine.cuda else None,
        "reading": machine.at_rest.to_json(),
        "under_load": load_json(machine.under_load) if machine.under_load else None,
        "sensor_problems": dict(machine.sensor_problems),
        "model": model.to_json() if model else None,
        "store": {"path": str(store.root), "models": store.names()},
        "checks": [with_entries(finding) for finding in findings],
    }


def load_json(load: UnderLoad) -> dict[str, float | None]:
    """What was reached under load."""
    names = ("emc_mhz", "bandwidth_gb_s", "power_w", "hottest_c")
    values = {name: [getattr(reading, name) for reading in load.readings] for name in names}
    return {
        "copied_gb_s": load.copied_gb_s,
        **{name: max((v for v in values[name] if v is not None), default=None) for name in names},
    }
