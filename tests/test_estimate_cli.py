"""`orin-llm estimate` as a stranger uses it: what is printed, what is refused, with which code."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pexpect
import pytest
from gguf_bytes import tiny_experts
from models_support import TINY, store_environment
from processes import CLI, python
from processes import run as run_process
from typer.testing import CliRunner

from orin_llm.cli.estimate import FactorOptions
from orin_llm.cli.main import app
from orin_llm.estimate.roofline import Factors


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(TINY)
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in this process, which is quicker than one of its own."""
    done = CliRunner().invoke(app, ["estimate", *arguments], env={"COLUMNS": "80"})
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def test_every_mode_has_a_row_and_it_is_called_an_estimate(model: Path) -> None:
    done = run(str(model), "--board", "agx-orin-64gb", "-d", "8,16")
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first.startswith("ESTIMATE") and first.endswith("worked out, not measured")
    rows = [line.split()[:2] for line in lines if re.match(r"(MAXN|MODE_\d+W) +\d+  ", line)]
    modes = ("MAXN", "MODE_15W", "MODE_30W", "MODE_50W")
    assert [row for row in rows if row[1] in ("8", "16")] == [
        [mode, depth] for mode in modes for depth in ("8", "16")
    ]
    assert "57% of the bandwidth, 20% of the f16" in done.stdout
    assert "7.3 bytes a clock" in done.stdout
    assert "Too fast to be true" in done.stdout


def test_the_memory_arithmetic_is_shown(model: Path) -> None:
    done = run(str(model), "--board", "agx-orin-32gb", "--ctx", "64")
    assert "RAM that Linux has on a Jetson AGX Orin 32GB" in done.stdout
    assert re.search(r"fits: \d+ sequences of 64 tokens \(.* left / .*\)", done.stdout)


def test_json_holds_what_the_table_shows(model: Path) -> None:
    arguments = [str(model), "-d", "8", "--mode", "30W", "--bandwidth", "0.5", "--ctx", "64"]
    done = run(*arguments, "--board", "agx-orin-64gb", "--json")
    found = json.loads(done.stdout)
    assert found["estimate"] is True and found["measured"] is False
    assert found["board"] == {"name": "Jetson AGX Orin 64GB", "part": "p3701-0005"}
    assert found["factors"]["bandwidth"] == 0.5
    (mode,) = found["modes"]
    assert (mode["name"], mode["sm_count"], mode["gpu_mhz"]) == ("MODE_30W", 8, 612)
    (point,) = found["points"]
    assert (point["mode"], point["depth"]) == ("MODE_30W", 8)
    # 9 tokens: 7.3 bytes for each of 8 multiprocessors at 612 MHz, slower than half the bandwidth.
    read = found["work"][0]["decode_read_bytes"]
    assert point["tpot_ms"] == pytest.approx(1e3 * read / (7.3 * 8 * 612e6))
    assert found["memory"]["ctx"] == 64 and found["memory"]["sequences"] > 0


def test_check_prints_the_efficiencies_of_published_results() -> None:
    done = run("--check")
    assert done.returncode == 0
    line = next(line for line in done.stdout.splitlines() if line.startswith("llama.cpp"))
    assert " 57% " in line and " 5.6 " in line
    published = json.loads(run("--check", "--json").stdout)["published"]
    assert len(published) == done.stdout.count("MAXN  ") + done.stdout.count("MODE_30W  ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{dir}/none.gguf"], 3, "none.gguf"),
        (["{dir}/text.gguf"], 3, "text.gguf"),
        (["{dir}/moe.gguf"], 3, "mixture of experts"),
        ([], 2, "no model"),
        (["{dir}/tiny.gguf", "-d", "0"], 2, "--depth has 0"),
        (["{dir}/tiny.gguf", "-d", "x"], 2, "--depth has 'x'"),
        (["{dir}/tiny.gguf", "-d", "999999"], 2, "leaves no room for an answer"),
        (["{dir}/tiny.gguf", "--mode", "7W"], 2, "no power mode '7W'"),
        (["{dir}/tiny.gguf", "--board", "nano"], 2, "unknown module 'nano'"),
        (["{dir}/tiny.gguf", "-ctk", "q9"], 2, "kv_type is 'q9'"),
        (["{dir}/tiny.gguf", "--compute", "2"], 2, "compute efficiency is 2"),
    ],
)
def test_what_cannot_be_is_one_error(
    tmp_path: Path, model: Path, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / "text.gguf").write_text("this is no model, but a line of text\n")
    (tmp_path / "moe.gguf").write_bytes(tiny_experts().data)
    given = [argument.format(dir=tmp_path) for argument in arguments]
    done = run(*given)
    assert done.returncode == code, done.stdout + done.stderr
    assert message in done.stderr and done.stderr.startswith("error: ")
    assert done.stdout == ""


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_table_can_be_read_at_any_width(model: Path, tmp_path: Path, columns: int) -> None:
    environment = store_environment(tmp_path / "store", TERM="xterm", COLUMNS=str(columns))
    arguments = ["estimate", str(model), "-d", "8", "--mode", "MAXN", "--board", "agx-orin-64gb"]
    child = pexpect.spawn(
        CLI[0], [*CLI[1:], *arguments], env=environment, encoding="utf-8", timeout=60
    )
    shown = child.read()
    child.close()
    assert child.exitstatus == 0, shown
    expected = json.loads(run(*arguments[1:], "--json").stdout)["points"][0]
    assert f"{1e3 / expected['tpot_ms']:.1f}" in shown
    assert "memory, memory" in shown


def test_the_flags_repeat_the_defaults_of_the_factors() -> None:
    assert FactorOptions().factors() == Factors()


def test_help_needs_nothing_heavy() -> None:
    heavy = ["rich.table", "numpy", "orin_llm._native", "orin_llm.bench.lengths"]
    probe = f"import sys, orin_llm.cli.estimate;print([m for m in {heavy} if m in sys.modules])"
    done = run_process(python(probe))
    assert done.stdout.strip() == "[]", done.stderr
