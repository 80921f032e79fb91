"""Arguments in, a file and tables out."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from checking.checkout import ROOT, commit_of_checkout
from checking.ended import Ended, end
from checking.record import Record, read_record
from checking.run import Run
from gpu_check.machine import missing_packages, require_gpu, set_environment
from gpu_check.plan import all_steps
from gpu_check.proxy import Proxy
from gpu_check.report import markdown, summary
from gpu_check.steps import REHEARSAL, SHAPES, Context, Sizes, Step
from orin_llm.errors import DeviceUnavailable, OrinError, UsageError
from orin_llm.host.signals import handled

PROGRAM = "scripts/gpu_check.sh"
_OUT = "build/gpu_check/result.json"
_DAY = 24 * 60.0
_ONLY = "a step, or all of a group: decode, proxy, models.8b; also what is done already"
_MINUTES = "time for this call; the least important steps are dropped where it is short"
_DEVICE = "cpu: a rehearsal with a tiny model and with what is built already"
_EPILOG = """\
Each step has a time limit, and a failed one does not stop the others. What is done is in the file;
call again to go on from there. Without a network set ORIN_LLM_SOURCE (scripts/prepare_source.py);
the Python packages of scripts/build.sh test have to be there already.
Exit codes: 0 all done, 1 not all, 2 wrong usage, 4 no GPU, nvcc or cuBLAS, 130 interrupted,
143 ended by SIGTERM, 129 by a closed terminal.
"""


@dataclass(frozen=True)
class Arguments:
    """The command line."""

    device: str
    out: Path
    only: list[str]
    minutes: float
    models: list[str]
    commit: str | None
    report: Path | None
    list: bool


def parse(arguments: Sequence[str]) -> Arguments:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Build, check and time everything on a machine with an NVIDIA GPU.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--out", type=Path, default=ROOT / _OUT, metavar="FILE", help=f"the result; default: {_OUT}"
    )
    add("--only", action="append", default=[], metavar="STEP", help=_ONLY)
    add("--minutes", type=float, default=_DAY, metavar="N", help=_MINUTES)
    add("--models", default="", metavar="LIST", help=f"of {', '.join(SHAPES)}; default: 1b,8b")
    add("--device", choices=("gpu", "cpu"), default="gpu", help=_DEVICE)
    add("--commit", help="what the checkout is of, where it has no repository")
    add("--list", action="store_true", help="name the steps and end")
    add("--report", type=Path, metavar="FILE", help="print FILE as Markdown and end")
    found = parser.parse_args(arguments)
    models = found.models or ("1b,8b" if found.device == "gpu" else "tiny")
    found.models = models.split(",")
    if unknown := set(found.models) - SHAPES.keys():
        parser.error(f"no model {', '.join(sorted(unknown))}: there are {', '.join(SHAPES)}")
    if not found.minutes > 0:
        parser.error(f"--minutes {found.minutes:g}: expected more than 0")
    return Arguments(**vars(found))


def chosen(arguments: Arguments, record: Record | None) -> list[Step]:
    """Steps that are to be run: those that were named, else those that are not done.

    Raises UsageError where a name is none of a step.
    """
    steps = all_steps(arguments.models, arguments.device == "gpu")
    for group in arguments.only:
        if not any(step.is_named(group) for step in steps):
            raise UsageError(f"no step {group!r}: {PROGRAM} --list names them")
    if arguments.only:
        return [step for step in steps if any(step.is_named(group) for group in arguments.only)]
    return [step for step in steps if record is None or not record.is_done(step.name)]


def check(arguments: Arguments) -> int:
    """Run what is to be run. Raises OrinError."""
    set_environment()
    on_gpu = arguments.device == "gpu"
    if on_gpu:
        gpu = require_gpu()
    elif missing := missing_packages():
        raise DeviceUnavailable(missing[0])
    of: dict[str, Any] = {
        "commit": arguments.commit or commit_of_checkout(),
        "device": gpu.get("uuid") or gpu["name"] if on_gpu else "cpu",
        "models": arguments.models,
    }
    record = Record(arguments.out.absolute(), of)
    steps = chosen(arguments, record)
    record.data["calls"].append(
        {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "command": shlex.join([PROGRAM, *sys.argv[1:]]),
        }
    )
    record.write()
    sizes = Sizes() if on_gpu else REHEARSAL
    try:
        with Proxy(record, _say) as proxy:
            context = Context(
                ROOT / "build/gpu_check", on_gpu=on_gpu, sizes=sizes, proxy=proxy.environ
            )
            Run(record, context, arguments.minutes * 60, _say, PROGRAM).steps(steps)
    finally:
        print(summary(record.data))
        _say(f"written: {record.path}")
    return 0 if all(record.is_done(step.name) for step in steps) else 1


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> int:
    arguments = parse(argv)
    try:
        with handled(end):
            if arguments.report:
                print(markdown(read_record(arguments.report)), end="")
            elif arguments.list:
                for step in chosen(arguments, None):
                    print(f"{step.name:24}{step.does}")
            else:
                return check(arguments)
    except Ended as ended:
        _say("interrupted: what was done is kept; the same command goes on from here")
        return 128 + ended.number
    except OrinError as error:
        _say(f"error: {error}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
