"""Arguments in, one archive out."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

from board_check.archive import listing, write_archive
from board_check.checklist import checklist, verdict
from board_check.identity import read_identity
from board_check.machine_steps import restrictions
from board_check.plan import all_steps
from board_check.redact import Redactor
from board_check.secret import Secret, keep
from board_check.target import PROGRAM, Target, find_target
from board_check.vocabulary import read_vocabulary
from checking.checkout import ROOT, commit_of_checkout
from checking.ended import Ended, end
from checking.record import Record, read_record
from checking.run import Run
from checking.steps import Context
from orin_llm.errors import OrinError, UsageError
from orin_llm.host.disk import require_space
from orin_llm.host.locking import file_lock
from orin_llm.host.signals import handled

_FOLDER = "build/board_check"
_SECRETS = "secrets.json"
_ROOM_BYTES = 100 << 20
_FOR_ROOT = f"sudo {PROGRAM} --only facts --only idle --only doctor"
_EPILOG = f"""\
Nothing of the machine is changed, and nothing is asked. A failed step does not stop the others, and
Ctrl-C writes the archive of what there is. What needs root (the memory's clock, jetson_clocks) is
said; for that alone, afterwards:
  {_FOR_ROOT}
Exit codes: 0 all passed, 1 something failed or was not run, 2 wrong usage, 4 no Python, 130
interrupted, 143 ended by SIGTERM, 129 by a closed terminal.
"""


@dataclass(frozen=True)
class Arguments:
    """The command line."""

    minutes: float
    only: list[str]
    model: str | None
    out: Path
    fresh: bool
    list: bool
    root: Path


def parse(arguments: Sequence[str]) -> Arguments:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Collect on a Jetson what only a board can tell, in one archive.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", type=float, default=30, metavar="N", help="time for this call; default: 30")
    add("--only", action="append", default=[], metavar="STEP", help="this step; can be repeated")
    add(
        "--model",
        metavar="MODEL",
        help="a model of yours to measure: a file, or a name in the store",
    )
    add("--out", type=Path, default=ROOT / _FOLDER, metavar="FOLDER",
        help=f"for results and archive; default: {_FOLDER}")  # fmt: skip
    add("--fresh", action="store_true", help="begin again, without what an earlier call has found")
    add("--list", action="store_true", help="name the steps and end")
    add("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)
    found = Arguments(**vars(parser.parse_args(arguments)))
    if not found.minutes > 0:
        parser.error(f"--minutes {found.minutes:g}: expected more than 0")
    return found


def main(argv: Sequence[str]) -> int:
    arguments = parse(argv)
    try:
        with handled(end):
            target = find_target(
                arguments.root.absolute(), arguments.out.absolute(), _found(arguments.model)
            )
            if arguments.list:
                for step in all_steps(target):
                    _print(f"{step.name:10}{step.does}")
                return 0
            with _own_folder(target.folder):
                return _check(arguments, target)
    except Ended as ended:
        _say("interrupted: what was done is kept; the same command goes on from here")
        return 128 + ended.number
    except OrinError as error:
        _say(f"error: {error}")
        return error.exit_code
    except PermissionError as error:
        _say(f"error: {error.filename} is another user's: sudo chown -R $USER"
             f" {shlex.quote(str(arguments.out))}, or name another folder (--out)")  # fmt: skip
        return 1
    except OSError as error:
        _say(f"error: {error.filename or arguments.out}: {error.strerror}: a folder that can be"
             " written, with room, is named by --out")  # fmt: skip
        return 1


def _check(arguments: Arguments, target: Target) -> int:
    """Run what is to be run, and write the archive whatever happens. Raises OrinError, OSError."""
    if unknown := set(arguments.only) - {step.name for step in all_steps(target)}:
        raise UsageError(f"no step {min(unknown)!r}: {PROGRAM} --list names them")
    record = _open_record(arguments, target)
    target = replace(target, model=record.data["of"]["model"])  # that of the first call
    steps = all_steps(target)
    held_back = restrictions(target.root)
    for line in held_back:
        _say(f"note: {line}")
    if held_back and target.is_jetson:
        _say("note: it goes on as it is; figures are those of this state")
    if target.is_jetson and os.geteuid() != 0:
        held_back.append(f"the memory's clock and jetson_clocks tell root alone: {_FOR_ROOT}")
        _say(f"note: {held_back[-1]}")
    only = arguments.only
    chosen = [s for s in steps if (s.name in only if only else not record.is_done(s.name))]
    if target.is_built and "build" not in {*record.steps, *(step.name for step in chosen)}:
        chosen = [replace(s, needs=tuple(n for n in s.needs if n != "build")) for s in chosen]
    os.environ |= {"COLUMNS": "400", "NO_COLOR": "1"}  # a name that is folded is not known
    context = Context(target.folder)
    try:
        Run(record, context, arguments.minutes * 60, _say, PROGRAM).steps(chosen)
    finally:
        with handled(_ignore, ignored_too=True):
            _finish(target, record, checklist(steps, record.steps, held_back))
    return 0 if all(verdict(record.steps.get(step.name)) == "passed" for step in steps) else 1


def _open_record(arguments: Arguments, target: Target) -> Record:
    """Of this checkout and model; raises UsageError where the folder has another one's."""
    path = target.folder / "record.json"
    if arguments.fresh:
        for name in ("collected", "logs", "models"):
            shutil.rmtree(target.folder / name, ignore_errors=True)
        path.unlink(missing_ok=True)
        (target.folder / _SECRETS).unlink(missing_ok=True)
    of = {"commit": commit_of_checkout(), "model": target.model}
    if path.exists():
        had = read_record(path)["of"]
        of["commit"] = of["commit"] or had.get("commit")  # git tells other users nothing
        of["model"] = of["model"] or had.get("model")
        if had != of:
            raise UsageError(
                f"{target.folder} has what was found of another commit or model: --fresh begins"
                " again, --out FOLDER keeps it"
            )
    record = Record(path, of)
    date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    # Not the command as it was typed: it may have folders in it.
    call = {"date": date, "minutes": arguments.minutes, "only": arguments.only}
    record.data["calls"].append({**call, "is_root": os.geteuid() == 0})
    record.write()
    return record


def _finish(target: Target, record: Record, summary: str) -> None:
    """Write the archive and say where it is."""
    _say("writing the archive")
    texts = {"SUMMARY.txt": f"{summary}\n", "record.json": record.path.read_text()}
    sources = {
        "collected": _files(target.collected),
        "collected/facts": _files(target.collected / "facts"),
        "logs": _files(target.folder / "logs"),
        "gpu_check": _files(ROOT / "build/gpu_check/logs") if target.has_gpu else [],
    }
    files = [path for paths in sources.values() for path in paths]
    raw = "\n".join(map(_text, files))
    secrets = keep(target.folder / _SECRETS, _secrets(target), raw)
    redactor = Redactor(secrets, read_vocabulary(ROOT))
    archive = write_archive(target.folder, texts, sources, redactor)
    _print(redactor.redact(summary))
    _print("")
    for line in listing(archive):
        _print(line)
    _give_to_caller(target.folder)


def _text(path: Path) -> str:
    with suppress(OSError):  # the archive says that it cannot be read
        return path.read_text(errors="replace")
    return ""


def _secrets(target: Target) -> list[Secret]:
    """What this user and this shell can know of the machine; others' calls knew other things."""
    folders = {ROOT: "<checkout>"}
    if not target.folder.is_relative_to(ROOT):
        folders[target.folder] = "<out>"
    if target.model and os.sep in target.model:
        folders[Path(target.model).parent] = "<models>"
    found = read_identity(target.root, ROOT, folders)
    if target.root != Path("/"):
        found += read_identity(Path("/"), ROOT, folders)
    return found


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.is_file() and not path.is_symlink()]


def _give_to_caller(folder: Path) -> None:
    """Where sudo made files, the user goes on with them."""
    user, group = (os.environ.get(name, "") for name in ("SUDO_UID", "SUDO_GID"))
    if os.geteuid() == 0 and user.isdecimal() and group.isdecimal():
        above = [path for path in folder.parents if ROOT in path.parents]
        made = [path for path in above if path.stat().st_uid == 0]
        for path in (*made, folder, *folder.rglob("*")):
            with suppress(OSError):
                os.chown(path, int(user), int(group), follow_symlinks=False)


@contextmanager
def _own_folder(folder: Path) -> Iterator[None]:
    """The folder, which can be written, has room, and nobody else works in."""
    folder.mkdir(parents=True, exist_ok=True)
    holder = folder / "pid"

    def refuse() -> None:
        process = holder.read_text().strip() if holder.exists() else "another"
        raise OrinError(f"process {process} is at work in {folder}: wait for it, or name another"
                        " folder (--out)")  # fmt: skip

    with file_lock(folder / "lock", refuse):
        holder.write_text(f"{os.getpid()}\n")
        require_space(folder, _ROOM_BYTES)
        yield


def _found(model: str | None) -> str | None:
    """Absolute where it is a file. Raises UsageError where it looks like one and is none."""
    if model is None or (os.sep not in model and not model.endswith(".gguf")):
        return model
    path = Path(model).expanduser().absolute()
    if not path.is_file():
        raise UsageError(f"--model {model}: no such file")
    return str(path)


def _say(line: str) -> None:
    with suppress(OSError):  # the terminal is closed
        print(line, file=sys.stderr, flush=True)


def _print(line: str) -> None:
    with suppress(OSError):  # who read it is gone
        print(line, flush=True)


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    status = main(sys.argv[1:])
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)  # streams that nobody reads would make it another one
