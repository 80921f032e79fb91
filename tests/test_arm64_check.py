"""The steps of `scripts/arm64_check.sh` and their verdicts, where programs are stand-ins."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import arm64_check.core
from arm64_check import __main__ as program
from arm64_check.build import module
from arm64_check.core import core
from arm64_check.parity import parity
from arm64_check.steps import CheckFailed, Emulated, Found, Step
from arm64_check.stock import stock
from arm64_check.wheel import build_wheel, require_usable
from checking.checkout import ROOT

SCRIPT = ROOT / "scripts/arm64_check.sh"


def machine(folder: Path, python: str = "exit 1") -> Emulated:
    """Its Python is a shell script."""
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{python}\n")
    path.chmod(0o755)
    return Emulated(folder, path, ("echo",), folder / "module.so", "aarch64-linux-gnu-", {})


def good(machine: Emulated) -> Found:
    return {"programs": 3, "share": 0.25, "features": ["neon"]}


def bad(machine: Emulated) -> Found:
    raise CheckFailed("expected neon, found none")


def broken(machine: Emulated) -> Found:
    raise ZeroDivisionError("of a step")


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Step]:
    steps = [
        Step("module", "build", good),
        Step("core", "run", good, needs_module=False),
        Step("wheel", "install", good),
    ]
    monkeypatch.setattr(program, "STEPS", steps)
    monkeypatch.setattr(program, "emulated_machine", lambda: machine(tmp_path))
    return steps


@pytest.mark.parametrize(
    ("named", "run"),
    [
        ([], ["module", "core", "wheel"]),
        (["core"], ["core"]),
        (["wheel"], ["module", "wheel"]),
        (["wheel", "core"], ["module", "core", "wheel"]),
    ],
)
def test_the_module_is_built_before_what_needs_it(
    three: list[Step], named: list[str], run: list[str]
) -> None:
    assert [step.name for step in program.chosen(named)] == run


def test_an_unknown_step_is_told_with_those_that_there_are(
    three: list[Step], capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["core", "whele"]) == 2
    assert "no step 'whele': there are module, core, wheel" in capsys.readouterr().err


def test_a_call_can_be_judged_before_anything_is_built(three: list[Step]) -> None:
    three[0] = Step("module", "build", broken)
    assert program.main(["module", "--check-call"]) == 0
    assert program.main(["whele", "--check-call"]) == 2


def test_a_failed_step_does_not_stop_the_others(
    three: list[Step], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    three[1] = Step("core", "run", bad, needs_module=False)
    three.insert(2, Step("odd", "run", broken))
    assert program.main(["--json", str(tmp_path / "r.json")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        'module: done (0 s) programs 3, share 0.25, features ["neon"]',
        "core: failed (0 s) expected neon, found none",
        "odd: failed (0 s) ZeroDivisionError: of a step",
        'wheel: done (0 s) programs 3, share 0.25, features ["neon"]',
    ]
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["processor"] == "cortex-a76"
    assert report["emulator"].startswith("echo")
    steps = report["steps"]
    assert steps["core"]["error"] == "expected neon, found none"
    assert steps["wheel"]["found"]["share"] == 0.25


def test_what_needs_the_module_is_skipped_without_it(
    three: list[Step], capsys: pytest.CaptureFixture[str]
) -> None:
    three[0] = Step("module", "build", bad)
    assert program.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("core: done")
    assert lines[2] == "wheel: skipped (0 s) needs module"


def test_a_result_that_cannot_be_written_is_told_before_anything_runs(
    three: list[Step], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["--json", str(tmp_path / "none/r.json")]) == 2
    said = capsys.readouterr()
    assert "none does not exist; create it first" in said.err
    assert not said.out


def test_to_see_whether_a_result_can_be_written_leaves_what_is_there(
    three: list[Step], tmp_path: Path
) -> None:
    empty, link = tmp_path / "empty", tmp_path / "link"
    empty.touch()
    link.symlink_to(empty)
    for path in (empty, link):
        assert program.main(["--check-call", "--json", str(path)]) == 0
    assert link.is_symlink() and empty.exists()
    for path in (tmp_path, Path("/dev/null")):
        assert program.main(["--check-call", "--json", str(path)]) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_is_told_and_what_was_found_is_kept(
    three: list[Step], tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    def interrupted(machine: Emulated) -> Found:
        signal.raise_signal(number)
        raise AssertionError("it goes on")

    three[1] = Step("core", "run", interrupted)
    assert program.main(["--json", str(tmp_path / "r.json")]) == 128 + number
    assert "what is compiled is kept" in capsys.readouterr().err
    assert list(json.loads((tmp_path / "r.json").read_text())["steps"]) == ["module"]


def answers(features: list[str]) -> str:
    info = json.dumps({"compiler": "c++ 12", "cpu_flags": features})
    return f"case \"$1\" in -c) echo '{info}' ;; esac"


def test_the_module_is_for_the_boards_processor_and_no_other(tmp_path: Path) -> None:
    right = ["neon", "dotprod", "fp16"]
    assert module(machine(tmp_path, answers(right)))["features"] == right
    for wrong in (right[:2], [*right, "fp16fml"]):
        with pytest.raises(CheckFailed, match="the board has neon, dotprod, fp16"):
            module(machine(tmp_path, answers(wrong)))


def test_a_failed_build_is_told_with_the_end_of_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match=r"exit status 3\n  no compiler"):
        module(machine(tmp_path, "echo no compiler >&2; exit 3"))


def test_every_program_of_the_core_has_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = sorted(path.stem for path in ROOT.glob("tests/core/test_*.cpp"))
    lines = [f"build/core/for/{name}" for name in names]

    def says(out: list[str]) -> None:
        def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
            return subprocess.CompletedProcess([], 0, "\n".join(out), "")

        monkeypatch.setattr(arm64_check.core, "run_program", run)

    says([*lines, "200000 operations on 200 pools"])
    assert core(machine(tmp_path)) == {"programs": len(names), "operations": 200000}
    says(lines[1:])
    with pytest.raises(CheckFailed, match=f"has not run {names[0]}$"):
        core(machine(tmp_path))


def test_a_wheel_of_another_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arm64_check.wheel.WORK", tmp_path)
    monkeypatch.setattr("arm64_check.wheel.ROOT", tmp_path)
    stale = tmp_path / "build/lib.linux-aarch64-cpython-311"
    stale.mkdir(parents=True)

    def making(name: str) -> Emulated:
        return machine(tmp_path, f"mkdir -p {tmp_path}/wheel && touch {tmp_path}/wheel/{name}")

    right = "orin_llm-0.1.0-cp311-cp311-linux_aarch64.whl"
    assert build_wheel(making(right)).name == right
    assert not stale.exists()
    with pytest.raises(CheckFailed, match="is no wheel for linux_aarch64"):
        build_wheel(making("orin_llm-0.1.0-cp311-cp311-linux_x86_64.whl"))


def test_what_doctor_misses_fails_and_what_hurts_does_not() -> None:
    def report(level: str) -> str:
        return json.dumps({"checks": [{"level": level, "found": "the build uses sve"}]})

    require_usable(report("hurts"))
    with pytest.raises(CheckFailed, match="orin-llm doctor says: the build uses sve"):
        require_usable(report("missing"))
    with pytest.raises(CheckFailed, match="gives no report: 'Illegal instruction'"):
        require_usable("Illegal instruction\n")


def test_a_peer_whose_test_is_skipped_is_no_peer(tmp_path: Path) -> None:
    assert "bit_for_bit" in str(stock(machine(tmp_path, "echo '2 passed in 2 s'"))["tests"])
    with pytest.raises(CheckFailed, match="expected that tests/test_engine_stock.py"):
        stock(machine(tmp_path, "echo '1 passed, 1 skipped in 2 s'"))


def test_tests_that_report_nothing_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arm64_check.parity.WORK", tmp_path)
    with pytest.raises(CheckFailed, match=r"exit status 7 and reports nothing:\n  no memory"):
        parity(machine(tmp_path, "echo no memory >&2; exit 7"))


def test_tests_that_are_ended_before_their_end_have_not_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arm64_check.parity.WORK", tmp_path)
    monkeypatch.setattr("arm64_check.parity.PARITY", {"RoPE": ("test_rope_table",)})
    case = '<testcase classname="tests.test_rope_table" name="test_1"/>'
    report = f"echo '<testsuite>{case}</testsuite>' >{tmp_path}/parity.xml"
    assert parity(machine(tmp_path, report)) == {"RoPE": {"passed": 1, "skipped": {}}}
    with pytest.raises(CheckFailed, match="exit status 2:\n  no more disk"):
        parity(machine(tmp_path, f"{report}; echo no more disk; exit 2"))


def test_programs_for_another_processor_are_compiled_and_started_as_it_says(
    tmp_path: Path,
) -> None:
    """`scripts/sanitize.sh for`, where a compiler makes scripts."""
    for folder in ("cpp", "tests/core"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts/sanitize.sh", tmp_path / "scripts")
    compiler = tmp_path / "a compiler"
    compiler.write_text(
        '#!/bin/sh\necho "$@" >>flags.log\nwhile [ "$1" != -o ]; do shift; done\n'
        'echo "exit 9" >"$2"\nchmod +x "$2"\n'
    )
    emulator = tmp_path / "an emulator"
    emulator.write_text('#!/bin/sh\necho "$1 starts $2"\n')
    for file in (compiler, emulator):
        file.chmod(0o755)
    variables = {"CXX": str(compiler), "EMULATOR": f"'{emulator}' -cpu", "PATH": "/usr/bin:/bin"}
    variables["CCACHE_DISABLE"] = "1"
    done = subprocess.run(
        [script, "for", "-march=board"], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    started = [line for line in done.stdout.splitlines() if line.startswith("-cpu starts ")]
    assert len(started) == len(list(ROOT.glob("tests/core/test_*.cpp")))
    flags = (tmp_path / "flags.log").read_text().splitlines()
    assert all("-march=board" in line.split() for line in flags)
    failing = variables | {"EMULATOR": "false"}
    assert subprocess.run([script, "for"], env=failing, capture_output=True).returncode != 0


def script(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run it where these stand-ins come before what the shell needs, and there is nothing else."""
    for name in ("bash", "dirname", "env", "id", "sh"):
        (folder / name).symlink_to(str(shutil.which(name)))
    (folder / "python3").symlink_to(sys.executable)
    for name, text in programs.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    variables = {**os.environ, "PATH": str(folder)}
    return subprocess.run([SCRIPT], env=variables, capture_output=True, text=True)


def test_an_arm_machine_is_told_that_it_needs_no_emulator(tmp_path: Path) -> None:
    done = script(tmp_path, uname="echo aarch64")
    assert done.returncode == 4
    assert "needs no emulator" in done.stderr


def test_system_packages_that_are_missing_are_named(tmp_path: Path) -> None:
    done = script(tmp_path, uname="echo x86_64", apt_get="exit 1", sudo="exit 1")
    assert done.returncode == 4
    last = done.stderr.splitlines()[-1]
    assert last.endswith("qemu-user g++-aarch64-linux-gnu binutils-aarch64-linux-gnu")
