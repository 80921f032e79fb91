"""scripts/tune_orin.sh with a program that is a fake."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts/tune_orin.sh"
FAKE = """#!/bin/sh
echo "$*" >>"$FAKE_LOG"
case "$*" in
    "models list --json") printf '%s' "$FAKE_MODELS" ;;
    tune*) echo "tuned $2"; mkdir -p "$4"; echo report >"$4/report.md" ;;
esac
for wrong in $FAKE_FAILS; do
    case "$*" in
        *"${wrong%=*}"*) echo "error: no ${wrong%=*} today" >&2; exit "${wrong#*=}" ;;
    esac
done
case "$*" in *"${FAKE_HANGS:-nothing}"*) echo hanging >&2; exec sleep 60 ;; esac
"""


class Board:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.program = folder / "orin-llm"
        self.program.write_text(FAKE)
        self.program.chmod(0o755)

    def environment(self, models: list[str], fails: str = "", hangs: str = "") -> dict[str, str]:
        listed = {"models": [{"name": name} for name in models], "damaged": [{"name": "bad"}]}
        told = {"FAKE_LOG": str(self.log), "FAKE_FAILS": fails, "ORIN_LLM": str(self.program)}
        if hangs:
            told["FAKE_HANGS"] = hangs
        return {**os.environ, **told, "FAKE_MODELS": json.dumps(listed, indent=2)}

    def run(
        self, *arguments: str, models: list[str] | None = None, fails: str = ""
    ) -> subprocess.CompletedProcess[str]:
        environment = self.environment(["small", "large"] if models is None else models, fails)
        return subprocess.run(
            ["bash", str(SCRIPT), *arguments],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()

    def archived(self) -> dict[str, str]:
        """The files of the archive with what is in them."""
        (archive,) = self.folder.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            files = [member for member in tar.getmembers() if member.isfile()]
            return {m.name: (tar.extractfile(m) or open(os.devnull, "rb")).read().decode()
                    for m in files}  # fmt: skip


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def test_doctor_and_setup_come_before_each_model_is_tuned_and_checked(board: Board) -> None:
    done = board.run("--", "--goal", "ttft")
    assert done.returncode == 0, done.stderr
    assert board.calls == [
        "doctor",
        "setup plan",
        "models list --json",
        "tune small --folder tune-orin/small/tune --goal ttft",
        "accept -m small --evidence tune-orin/small/accept --force",
        "tune large --folder tune-orin/large/tune --goal ttft",
        "accept -m large --evidence tune-orin/large/accept --force",
    ]


def test_the_archive_has_every_report_and_how_each_step_ended(board: Board) -> None:
    done = board.run(fails="accept=1")
    files = board.archived()
    assert files["tune-orin/small/tune/report.md"] == "report\n"
    assert files["tune-orin/large/tune.txt"] == "tuned large\n"
    assert "error: no accept today" in files["tune-orin/small/accept.log"]
    summary = files["tune-orin/summary.txt"]
    assert summary.count("FAILED error: no accept today") == 2 and summary.count(" ok\n") == 4
    assert summary in done.stdout
    assert "reports: " in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("fails", ["doctor=1", "setup=4", "small=1", "tune=3 accept=4"])
def test_it_goes_on_after_a_failure_and_says_so(board: Board, fails: str) -> None:
    done = board.run(fails=fails)
    assert done.returncode == 1
    assert len(board.calls) == 7
    assert "FAILED" in done.stdout


def test_models_can_be_named(board: Board) -> None:
    board.run("-m", "large", "-d", "my reports")
    assert board.calls[2:] == [
        "tune large --folder my reports/large/tune",
        "accept -m large --evidence my reports/large/accept --force",
    ]
    assert "my reports/large/tune.txt" in board.archived()


def test_a_board_without_models_is_told_so(board: Board) -> None:
    done = board.run(models=[])
    assert done.returncode == 1
    assert "no models: `orin-llm models pull NAME` fetches one" in done.stdout


@pytest.mark.parametrize("arguments", [["--goal", "ttft"], ["x"], ["-m"], ["-d"]])
def test_wrong_usage_starts_nothing(board: Board, arguments: list[str]) -> None:
    done = board.run(*arguments)
    assert done.returncode == 2
    assert "unknown option" in done.stderr or f"{arguments[0]} needs" in done.stderr
    assert not board.log.exists()


def test_help_needs_nothing(board: Board) -> None:
    done = board.run("--help")
    assert done.returncode == 0 and "scripts/tune_orin.sh -m NAME" in done.stdout


def test_ctrl_c_ends_it_with_an_archive_of_what_there_is(board: Board) -> None:
    process = subprocess.Popen(
        ["bash", str(SCRIPT)],
        env=board.environment(["small", "large"], hangs="tune small"),
        cwd=board.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal's Ctrl-C reaches all of it
    )
    assert process.stderr is not None
    while "hanging" not in process.stderr.readline():
        pass
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted: the same command goes on" in out
    assert [call for call in board.calls if "large" in call or "accept" in call] == []
    assert "tune-orin/small/tune/report.md" in board.archived()


def test_an_archive_that_cannot_be_written_is_an_error(board: Board) -> None:
    tar = board.folder / "bin" / "tar"
    tar.parent.mkdir()
    tar.write_text("#!/bin/sh\necho 'tar: no space left on device' >&2; exit 2\n")
    tar.chmod(0o755)
    os.environ["PATH"], before = f"{tar.parent}:{os.environ['PATH']}", os.environ["PATH"]
    try:
        done = board.run()
    finally:
        os.environ["PATH"] = before
    assert done.returncode == 1
    assert "the archive cannot be written; the reports are in tune-orin" in done.stderr
    assert not list(board.folder.glob("*.tar.gz*"))
