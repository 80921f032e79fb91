"""A checkout in which the long steps of `scripts/board_check.sh` are stand-ins, and a board."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from fakes import boards
from processes import environment

from arm64_check.parity import PARITY

ROOT = Path(__file__).resolve().parent.parent
SERIAL, MAC, HOST, USER, PERSON = (
    "1423922012345",
    "48:b0:2d:7a:19:5f",
    "zora-box",
    "zora",
    "Zora Ñandú",
)
MACHINE_ID = "3d1219c7c4c5404aaa1f6d2a48adfda4"
SECRETS = (
    SERIAL,
    MAC,
    MAC.replace(":", ""),
    HOST,
    USER,
    "Ñandú",
    "\\u00d1and",
    MACHINE_ID,
    "10.1.2.3",
)
A78AE = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop"
    " asimddp"
)
# Programs print such things, too.
_LOG = f"on {HOST.upper()} ({SERIAL}), {MAC.upper()}, inet 10.1.2.3/24, /home/{USER}/x of {PERSON}"
# Runs what is not canned in $FAKE as it is, and notes every call of the program.
_PYTHON = """#!/bin/sh
case "$*" in
    "-m orin_llm.cli "*) echo "$3" >>"$FAKE/calls"; name=$3 ;;
    "-m pytest "*) echo pytest >>"$FAKE/calls"; name=pytest ;;
    "-c import json; from orin_llm"*) name=info ;;
    *) name= ;;
esac
if [ -n "$name" ] && [ -e "$FAKE/$name.hangs" ]; then echo hanging >&2; sleep 60; fi
if [ -n "$name" ] && [ -e "$FAKE/$name" ]; then
    for last; do
        case $last in
            --junit-xml=*) cp "$FAKE/junit" "${last#*=}" ;;
            *.making) : >"$last" ;;
            */trace.json) echo '{}' >"$last" ;;
        esac
    done
    cat "$FAKE/log" >&2
    cat "$FAKE/$name"
    exit "$(cat "$FAKE/$name.status" 2>/dev/null || echo 0)"
fi
exec "$REAL_PYTHON" "$@"
"""
_BUILD = """#!/bin/sh
echo build >>"$FAKE/calls"
cat "$FAKE/log"
exit "$(cat "$FAKE/build.status" 2>/dev/null || echo 0)"
"""
_SANITIZE = """#!/bin/sh
echo sanitize >>"$FAKE/calls"
for test in tests/core/test_*.cpp; do echo "build/core/for/$(basename "$test" .cpp)"; done
"""
_GPU_CHECK = """#!/bin/sh
echo gpu_check >>"$FAKE/calls"
mkdir -p "${2%/*}"
cp "$FAKE/gpu_check" "$2"
"""
_TESTS = {"tests": 3, "failed": 0, "skipped": 1, "failures": []}
BENCH = {
    "machine": {"device": "CUDA0"},
    "results": [
        {
            "label": "p512 n128",
            "figures": {"ttft_ms": {"median": 88.1}, "tpot_ms": {"median": 5.25}},
        }
    ],
}
GREEDY = {"prompts": 5, "tokens": 64, "equal": 5, "differences": [], "agrees": True}


@dataclass(frozen=True)
class Checkout:
    """Where it lies, and the machine it is on."""

    folder: Path
    machine: boards.Machine

    @property
    def fake(self) -> Path:
        return self.folder / "fake"

    @property
    def results(self) -> Path:
        return self.folder / "build/board_check"

    def answers(self, name: str, answer: Any) -> None:
        """What a command of the program prints from now on."""
        (self.fake / name).write_text(answer if isinstance(answer, str) else json.dumps(answer))

    def calls(self) -> list[str]:
        """Of the program, its build and its tests, so far."""
        path = self.fake / "calls"
        return path.read_text().split() if path.exists() else []

    def command(self, *arguments: str) -> list[str]:
        root = ("--root", str(self.machine.root))
        return [str(self.folder / "scripts/board_check.sh"), *root, *arguments]

    def environment(self) -> dict[str, str]:
        variables = {
            "PATH": self.machine.path,
            "FAKE": str(self.fake),
            "REAL_PYTHON": sys.executable,
        }
        store = str(self.folder / "store")
        return environment(**variables, USER=USER, HOME=f"/home/{USER}", ORIN_LLM_MODELS=store)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), env=self.environment() | variables, capture_output=True,
            text=True, timeout=300, check=False, cwd=self.folder,
        )  # fmt: skip

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.results / "record.json").read_text())
        return found

    def status(self) -> dict[str, str]:
        return {name: entry["status"] for name, entry in self.record()["steps"].items()}

    def archived(self) -> dict[str, str]:
        """Texts of the archive, by name."""
        return texts_of(self.results / "board-check.tar.gz")


def texts_of(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        found = {}
        for member in tar.getmembers():
            file = tar.extractfile(member)
            assert file is not None and (member.uname, member.gname, member.uid) == ("", "", 0)
            found[member.name.removeprefix("board-check/")] = file.read().decode()
        return found


def make_checkout(folder: Path, board: boards.Jetson | None = None) -> Checkout:
    """All of the program is this checkout's; what takes long is canned, and goes well."""
    scripts = folder / "scripts"
    scripts.mkdir(parents=True)
    for name in ("board_check.sh", "choose_python.sh", "check_python.py", "system_packages.sh"):
        shutil.copy(ROOT / "scripts" / name, scripts)
    for name in ("board_check", "checking"):
        shutil.copytree(ROOT / "scripts" / name, scripts / name)
    for name in ("orin_llm", "docs", "README.md", "scripts/native", "scripts/arm64_check"):
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    _program(folder / ".venv/bin/python", _PYTHON)
    _program(scripts / "build.sh", _BUILD)
    _program(scripts / "gpu_check.sh", _GPU_CHECK)
    _program(scripts / "sanitize.sh", _SANITIZE)
    (folder / "tests").symlink_to(ROOT / "tests")
    machine = boards.jetson(folder / "machine", board) if board else boards.pc(folder / "machine")
    checkout = Checkout(folder, machine)
    checkout.fake.mkdir()
    _be_of_zora(machine)
    _answer_well(checkout)
    return checkout


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _be_of_zora(machine: boards.Machine) -> None:
    machine.write("proc/device-tree/serial-number", f"{SERIAL}\0")
    machine.write("proc/cpuinfo", f"processor : 0\nFeatures : {A78AE}\nSerial : {SERIAL}\n")
    machine.write("sys/class/net/eth0/address", f"{MAC}\n")
    machine.write("etc/hostname", f"{HOST}\n")
    machine.write("etc/machine-id", f"{MACHINE_ID}\n")
    machine.write("etc/passwd", f"{USER}:x:1000:1000:{PERSON},,,:/home/{USER}:/bin/sh\n")
    machine.write("proc/version", f"Linux version 5.15.148-tegra ({USER}@{HOST}) #1 SMP\n")


def _answer_well(checkout: Checkout) -> None:
    answer = checkout.answers
    answer("log", f"{_LOG}\n")
    answer("info", {"cuda": True, "cuda_architectures": "87-real", "why": f"nvcc 12.6 of {HOST}"})
    answer(
        "doctor", {"checks": [{"level": "ok", "check": "build"}], "under_load": {"emc_mhz": 3199}}
    )
    answer("monitor", {"machine": {"host": HOST}, "reading": {"sources": ["tegrastats"]}})
    answer("setup", {"changes": [{"name": "zram", "pending": True, "who": PERSON}]})
    answer("models", "")
    answer("bench", BENCH)
    answer("trace", {})
    answer("pytest", "3 passed")
    files = {entry.partition("::")[0] for entry in chain(*PARITY.values())}
    cases = [f'<testcase classname="tests.{file}" name="a"/>' for file in files]
    answer("junit", f"<testsuite>{''.join(cases)}</testsuite>")
    steps = {name: {"status": "done", "result": _TESTS} for name in ("build", "kernels", "engine")}
    steps["greedy"] = {"status": "done", "result": GREEDY}
    answer("gpu_check", {"format": 1, "steps": steps})
    (checkout.folder / "smollm2").write_bytes(b"GGUF")  # the default model, in no store


MAXN = replace(boards.AGX_64_JP6, mode="MAXN")
