"""`orin-llm doctor` as a stranger uses it: on every machine, in terminals, interrupted."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pexpect
import pytest
from doctor_support import GOOD, PC, mode
from fakes.boards import JETSONS, Machine, jetson, pc, pc_with_gpu
from fakes.cuda.driver import compile_driver
from models_support import TINY
from processes import CLI, environment
from typer.testing import CliRunner

from orin_llm.cli.doctor import load_json
from orin_llm.cli.doctor_view import build_line, facts, total
from orin_llm.cli.main import app
from orin_llm.device.build import Build, build_info
from orin_llm.device.probes.cuda import CudaProbe
from orin_llm.device.probes.load import UnderLoad
from orin_llm.device.reading import Reading
from orin_llm.doctor.catalogue import check
from orin_llm.models.store import Store

MACHINES = [*JETSONS, "pc", "pc_gpu"]


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORIN_LLM_MODELS", str(tmp_path / "store"))


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(TINY)
    return str(path)


def make(name: str, folder: Path) -> Machine:
    if name in JETSONS:
        return jetson(folder, JETSONS[name])
    return pc(folder) if name == "pc" else pc_with_gpu(folder)


def run(machine: Machine | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in this process, which is quicker than one of its own."""
    given = ["doctor", *arguments]
    variables = {}
    if machine is not None:
        given += ["--root", str(machine.root)]
        variables = {"PATH": machine.path}
    done = CliRunner().invoke(app, given, env=variables)
    return subprocess.CompletedProcess(given, done.exit_code, done.stdout, done.stderr)


def rows(shown: str) -> list[tuple[str, str]]:
    """Level and check of each row of the table."""
    found = re.findall(
        r"(?m)^(missing|hurts|warning|note|unknown|ok) +(\S+(?: \S+)*?)(?:  |$)", shown
    )
    return [(level, name) for level, name in found]


@pytest.mark.parametrize("name", MACHINES)
def test_the_table_and_the_json_say_the_same_on_every_machine(
    name: str, tmp_path: Path, model: str
) -> None:
    machine = make(name, tmp_path)
    text, told = run(machine, model, "--no-load"), run(machine, model, "--no-load", "--json")
    found = json.loads(told.stdout)
    checks = [(entry["level"], entry["check"]) for entry in found["checks"]]
    assert rows(text.stdout) == checks
    levels = [level for level, _ in checks]
    assert text.returncode == told.returncode == int("hurts" in levels)
    assert text.returncode == 0 or name != "pc"
    assert found["usable"] is True
    for entry in found["checks"]:
        assert set(entry) == {"check", "level", "found", "expected", "fix", "explain"}
        leads = f"more: orin-llm explain {entry['explain'][0]}"
        assert leads in text.stdout or entry["level"] in ("ok", "note", "unknown")
        assert entry["found"] in text.stdout
        if entry["level"] != "ok":
            assert entry["expected"] in text.stdout and entry["fix"] in text.stdout
    assert text.stderr == told.stderr == ""


@pytest.mark.parametrize("name", MACHINES)
def test_a_board_is_named_with_its_release_and_mode_and_a_pc_is_not(
    name: str, tmp_path: Path
) -> None:
    shown = run(make(name, tmp_path), "--no-load").stdout
    assert ("\nboard " in shown) == ("\npower mode MODE_30W\n" in shown) == (name in JETSONS)
    assert ("\nL4T " in shown) == (name in JETSONS)
    for part in ("build", "llama.cpp", "processor", "GPU", "memory", "models"):
        assert f"\n{part} " in shown


def test_json_has_the_machine_and_what_was_reached_under_load(tmp_path: Path, model: str) -> None:
    found = json.loads(run(make("64GB-JP6", tmp_path), model, "--json", "-c", "64").stdout)
    assert found["board"]["module"]["part"] == "p3701-0005"
    assert found["power_mode"]["name"] == "MODE_30W" and found["caps"]["tpc_mask"] == 240
    assert found["under_load"]["emc_mhz"] == 3199 and found["under_load"]["power_w"] == 31.0
    assert found["under_load"]["hottest_c"] == 56.0 and found["under_load"]["copied_gb_s"] > 0
    assert found["reading"]["largest_free_blocks"] == 1024
    assert found["model"]["memory"]["ctx"] == 64 and found["model"]["disk_read_bytes"] > 0


def test_what_was_reached_under_load_is_the_highest_of_all_readings() -> None:
    clocks = (204.0, 3199.0, None, 2133.0)
    readings = tuple(Reading(0, emc_mhz=clock, temperatures_c={"tj": 50}) for clock in clocks)
    told = load_json(UnderLoad(readings, None))
    assert told["emc_mhz"] == 3199 and told["hottest_c"] == 50
    assert told["power_w"] is None and told["copied_gb_s"] is None


def test_doctor_finds_this_machine_usable() -> None:
    done = run(None, "--no-load")
    assert done.returncode in (0, 1), done.stdout  # 1 where a GPU is left idle
    text = {line.split(maxsplit=1)[0]: line for line in done.stdout.splitlines() if line}
    assert {"orin-llm", "build", "llama.cpp", "processor", "GPU", "memory", "models"} <= set(text)
    assert build_info().why in text["build"]


def test_doctor_of_this_machine_as_json_is_one_object() -> None:
    report = json.loads(run(None, "--json", "--no-load").stdout)
    assert report["usable"] is True
    assert report["build"]["why"] == build_info().why
    assert report["memory"]["available_bytes"] > 0 and report["cpu"]["physical_cores"] >= 1


def test_doctor_ends_with_4_when_the_module_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Build(problem="the extension module does not load (x)")
    monkeypatch.setattr("orin_llm.doctor.look.build_info", lambda: broken)
    done = run(None, "--no-load")
    assert done.returncode == 4
    assert re.search(r"(?m)^missing +build +the extension module does not load", done.stdout)
    told = run(None, "--no-load", "--json")
    assert told.returncode == 4
    found = json.loads(told.stdout)
    assert found["usable"] is False
    missing = [c["found"] for c in found["checks"] if c["level"] == "missing"]
    assert missing == [broken.problem]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["no-such-model"], 3, "no-such-model"),
        (["/nowhere/x.gguf"], 3, "no such file"),
        (["--ctx-size", "-1"], 2, "ctx-size"),
        (["a", "b"], 2, "unexpected"),
    ],
)
def test_what_cannot_be_is_an_error(arguments: list[str], code: int, says: str) -> None:
    done = run(None, "--no-load", *arguments)
    assert done.returncode == code and done.stdout == ""
    assert says in done.stderr


def test_the_build_line_says_cpu_only_and_why() -> None:
    assert build_line(PC.build).startswith("CPU only, because nvcc was not found on PATH")
    assert "CUDA 12.6 (architectures 87-real)" in build_line(GOOD.build)
    assert "nvcc 12.6 in /usr/local/cuda" in build_line(GOOD.build)
    assert build_line(Build(problem="x")) == "not usable"


def test_the_facts_have_a_line_for_each_part(tmp_path: Path) -> None:
    shown = dict(facts(GOOD, Store(tmp_path)))
    assert "12 cores: neon dotprod fp16" in shown["processor"]
    assert shown["GPU"] == "Orin GPU, compute capability 8.7, shares the machine's memory"
    assert shown["memory"] == "51.54 GB available of 68.72 GB"
    assert "orin-llm models pull smollm2" in shown["models"]
    assert shown["board"] == "Orin Developer Kit, Jetson AGX Orin 64GB"
    assert (shown["L4T"], shown["power mode"]) == ("36.4.3 (JetPack 6.2)", "MAXN")


def changed(**parts: Any) -> str:
    machine = replace(GOOD, **parts)
    return total(check(machine), machine)


def test_the_sum_counts_every_level_and_says_when_root_would_know_more() -> None:
    assert changed() == "31 ok"
    assert changed(power=mode("MODE_50W")) == "1 warning, 30 ok"
    assert changed(binary_code=None) == "1 unknown, 30 ok"
    assert changed(cuda=CudaProbe("x"), power=mode("MODE_30W")) == "2 hurt, 25 ok"
    assert changed(cuda=CudaProbe("x")) == "1 hurts, 26 ok"
    assert changed(cpu=replace(GOOD.cpu, features=()), binary_code=None) == "2 unknown, 29 ok"
    firmware = {**GOOD.caps.to_json(), "emc_firmware_max_mhz": None}
    unread = changed(caps=type(GOOD.caps)(**firmware))
    assert unread == "1 unknown, 30 ok (run as root: sudo /opt/venv/bin/orin-llm doctor)"
    assert "run as root" not in changed(caps=type(GOOD.caps)(**firmware), is_root=True)


def spawn(machine: Machine, *arguments: str, columns: int = 80, **variables: str) -> Any:
    kept = {"PATH": machine.path, "TERM": "xterm", "COLUMNS": "", "NO_COLOR": "", **variables}
    env = {name: value for name, value in environment(**kept).items() if value}
    return pexpect.spawn(
        CLI[0],
        [*CLI[1:], "doctor", "--root", str(machine.root), *arguments],
        env=env,
        dimensions=(40, columns),
        encoding="utf-8",
        timeout=60,
    )


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_a_terminal_of_any_width_shows_whole_words(tmp_path: Path, columns: int) -> None:
    child = spawn(make("64GB-JP6-user", tmp_path), "--no-load", columns=columns)
    shown = child.read()
    child.close()
    assert child.exitstatus == 1
    answer = re.sub(r"\x1b\[[0-9;]*m", "", shown.rpartition("…")[2]).replace("\r\n", "\n")
    lines = [line.rpartition("\r")[2] for line in answer.splitlines()]
    long = [line for line in lines if len(line) >= columns]
    assert all(" " not in line.strip() for line in long), long  # a path or an address at most
    words = " ".join(answer.split())
    for part in ("MODE_30W", "all 16", "orin-llm setup apply --only clocks", "1024 of 4 MiB"):
        assert part in words
    assert "\x1b[31mhurts" in shown


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_is_left_out_where_it_is_not_wanted(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    child = spawn(make("64GB-JP6", tmp_path), "--no-load", **variables)
    shown = child.read()
    child.close()
    assert "\x1b[31m" not in shown and "hurts " in shown


def test_what_is_done_is_told_on_a_terminal_and_taken_away(tmp_path: Path, model: str) -> None:
    child = spawn(make("64GB-JP6", tmp_path), model)
    shown = child.read()
    child.close()
    for step in ("reading the sensors", "putting the memory under load", "from the disk"):
        assert f"\r{step}" in shown or step in shown
    line = shown.partition("orin-llm   ")[0]
    assert line.endswith("\r") and line.split("\r")[-2].strip() == ""


def interrupted(child: Any) -> str:
    """What is still shown after Ctrl-C, until the end.

    Once more after 10 s: Python itself loses one that comes while a module's import ends.
    """
    child.sendintr()
    if child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=10) == 1:
        child.sendintr()
        child.expect(pexpect.EOF)
    child.wait()  # closing the terminal earlier would end it by a signal
    child.close()
    shown: str = child.before
    return shown


def command_lines() -> str:
    """Of all processes that run now."""
    found = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            found += path.read_bytes() + b"\n"
    return found.decode(errors="replace")


@pytest.mark.parametrize(
    "step", ["asking the build", "reading the sensors", "putting the memory under load", "trying"]
)
def test_ctrl_c_ends_it_cleanly(tmp_path: Path, step: str) -> None:
    machine = make("64GB-JP6", tmp_path)
    driver = compile_driver(tmp_path)
    child = spawn(machine, LD_LIBRARY_PATH=str(driver), FAKE_CUDA_HANG="cuInit")
    child.expect(step)
    shown = interrupted(child)
    assert child.exitstatus == 130
    assert "Traceback" not in shown and "orin-llm   " not in shown
    assert str(machine.bin / "tegrastats") not in command_lines()
    assert "\r" in shown and shown.split("\r")[-2].strip() in ("", "^C")


def test_a_narrow_encoding_is_survived(tmp_path: Path) -> None:
    machine = make("64GB-JP6", tmp_path)
    env = environment(PATH=machine.path, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    done = subprocess.run(
        [*CLI, "doctor", "--no-load", "--root", str(machine.root)],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "56.0 ?C (tj)" in done.stdout, done.stderr


def test_help_names_the_exit_codes() -> None:
    shown = " ".join(run(None, "--help").stdout.split())
    assert "Exit code 0: nothing hurts" in shown and "--root" not in shown
