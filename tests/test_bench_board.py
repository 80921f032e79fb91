"""Benchmarks on a simulated board: real runs, readings of a fake tegrastats."""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import boards
from processes import CLI, environment, run
from typer.testing import CliRunner

from orin_llm.bench.device_use import device_use
from orin_llm.bench.runner import EngineRunner
from orin_llm.bench.workload import Submission, Wave, Workload
from orin_llm.cli.main import app
from orin_llm.device.board import read_board
from orin_llm.device.sampler import Sampler
from orin_llm.device.sources import open_sensors
from orin_llm.engine import Engine, EngineConfig

PATIENCE_S = 60
# Watts over time: it rises, and swings once a second.
CURVE = """
import math
def watts(s):
    return 30 + 0.5 * (s - START) + 2 * math.sin(2 * math.pi * s)
"""
# Its rails, of which the last must not be counted: it hangs off the third.
TEGRASTATS = """#!{python}
import time
START = {start}
{curve}
while True:
    total = watts(time.monotonic())
    rails = dict(VDD_GPU_SOC=0.6, VDD_CPU_CV=0.1, VIN_SYS_5V0=0.3, VDDQ_VDD2_1V8AO=0.2)
    mw = " ".join(f"{{name}} {{round(1e3 * part * total)}}mW/1mW" for name, part in rails.items())
    print(f"RAM 1/2MB (lfb 1x4MB) CPU [1%@729] GR3D_FREQ 92%@[612,0] tj@50C {{mw}}", flush=True)
    time.sleep(0.1)
"""


def test_joules_of_a_run_are_the_integral_of_the_power_curve_within_1_percent(
    smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = boards.jetson(tmp_path, boards.AGX_64_JP6)
    program = machine.bin / "tegrastats"
    program.unlink()
    start = time.monotonic()
    program.write_text(TEGRASTATS.format(python=sys.executable, start=start, curve=CURVE))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", machine.path)
    # A second request comes 4 s after the first, so that the run takes that long.
    submissions = tuple(Submission("stream", [n] * 20, 8, 4000.0 * n) for n in range(2))
    with (
        open_sensors(read_board(machine.root), 100, "tegrastats", machine.root) as sensors,
        Sampler(sensors, 100) as sampler,
        Engine(smollm2, EngineConfig(n_ctx=64, threads=1, max_batch=2)) as engine,
    ):
        deadline = time.monotonic() + PATIENCE_S
        while sampler.sample().power_w is None and time.monotonic() < deadline:
            time.sleep(0.05)
        done = EngineRunner(engine, sampler).run(Workload((Wave(submissions),)))
    found = device_use([done])
    assert found is not None and found.whole.joules_per_token is not None
    seconds = np.linspace(done.requests[0].submitted_ms, done.requests[1].finished_ms, 100_001)
    watts = 30 + 0.5 * (seconds / 1e3 - start) + 2 * np.sin(2 * np.pi * seconds / 1e3)
    integral = float(np.sum((watts[1:] + watts[:-1]) / 2 * np.diff(seconds / 1e3)))
    assert found.whole.tokens == 16
    assert found.whole.joules_per_token * 16 == pytest.approx(integral, rel=0.01)


@pytest.fixture
def capped(tmp_path: Path) -> boards.Machine:
    """In the 30 W mode, its memory held at 2133 MHz by the firmware."""
    board = replace(boards.AGX_64_JP6, emc_mhz=2133, emc_firmware_mhz=2133)
    return boards.jetson(tmp_path, board)


def bench_on(machine: boards.Machine, model: Path, *arguments: str) -> tuple[int, str, str]:
    quick = ("-p", "16", "-n", "4", "-r", "2", "-t", "1", "--root", str(machine.root))
    command = [*CLI, "bench", "-m", str(model), *quick, *arguments]
    done = run(command, env=environment(PATH=machine.path))
    return done.returncode, done.stdout, done.stderr


def test_a_result_tells_of_the_device_by_phase_and_how_it_was_set(
    capped: boards.Machine, tiny_model: Path
) -> None:
    code, out, err = bench_on(capped, tiny_model, "--json")
    assert code == 0, err
    found = json.loads(out)
    stamp = found["stamp"]
    assert (stamp["module"], stamp["power_mode"], stamp["gpu_units"]) == (
        "p3701-0005", "MODE_30W", 4
    )  # fmt: skip
    assert (stamp["emc_cap_mhz"], found["at_start"]["hottest_c"]) == (2133, 56)
    assert len(found["model"]["fingerprint"]) == 64
    device = found["results"][0]["device"]
    for phase in ("prefill", "decode", "whole"):
        use, activity = device[phase], device[phase]["activity"]
        assert activity["gpu_percent"] == pytest.approx(92)
        assert activity["emc_mhz"] == pytest.approx(2133)
        assert activity["bandwidth_gb_s"] == pytest.approx(0.84 * 204.8 * 2133 / 3199)
        assert activity["power_w"] == pytest.approx(boards.AGX_WATTS)
        joules = boards.AGX_WATTS * activity["duration_ms"] / 1e3
        assert use["joules_per_token"] * use["tokens"] == pytest.approx(joules, rel=0.01)
        assert use["of_peak"] == pytest.approx(use["read_gb_s"] / (204.8 * 2133 / 3199))
    per_run = found["results"][0]["repeated"]["joules_per_token"]
    assert sum(per_run) / 2 == pytest.approx(device["whole"]["joules_per_token"], rel=0.01)
    assert (device["prefill"]["tokens"], device["decode"]["tokens"]) == (32, 6)
    assert (device["throttled"], device["hottest_c"]) == ([], 56)


def test_markdown_and_csv_tell_it_too(capped: boards.Machine, tiny_model: Path) -> None:
    capped.write("sys/class/thermal/cooling_device2/cur_state", "1\n")  # gpu-throttle-alert
    _, text, _ = bench_on(capped, tiny_model, "-q")
    for part in (
        "(p3701-0005), L4T 36.4.3, JetPack 6.2, MODE_30W, 4 TPCs, GPU up to 612 MHz, memory up to "
        "2133 MHz, clocks not pinned, 56 °C at the start",
        "| GPU % |", "| EMC MHz |", "| of peak % |", "| J/token |", "| throttled |", "| gpu ",
    ):  # fmt: skip
        assert part in text
    assert "Not measured" not in text
    _, table, _ = bench_on(capped, tiny_model, "-q", "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(table))
    assert float(row["device.decode.activity.power_w"]) == pytest.approx(31)
    assert (row["stamp.power_mode"], row["device.throttled"]) == ("MODE_30W", "gpu")


def test_without_readings_the_machine_is_stamped_all_the_same(
    capped: boards.Machine, tiny_model: Path
) -> None:
    code, out, _ = bench_on(capped, tiny_model, "-q", "--json", "--no-readings")
    found = json.loads(out)
    assert code == 0 and found["results"][0]["device"] is None
    assert found["stamp"]["module"] == "p3701-0005" and found["at_start"]["hottest_c"] is None
    _, text, _ = bench_on(capped, tiny_model, "-q", "--no-readings")
    assert "Device readings: not measured." in text


def test_a_shorter_interval_reads_more_often(capped: boards.Machine, smollm2: Path) -> None:
    once = ("-p", "64", "-r", "1", "--warmup", "0", "-q", "--json")

    def samples_per_s(interval_ms: str) -> float:
        _, out, _ = bench_on(capped, smollm2, *once, "--interval", interval_ms)
        whole = json.loads(out)["results"][0]["device"]["whole"]
        return float(whole["samples"] / whole["activity"]["duration_ms"] * 1e3)

    assert samples_per_s("10") > 15 > samples_per_s("200")


@pytest.mark.parametrize("wrong", ["1", "nan", "inf", "1e9"])
def test_an_interval_that_nobody_can_read_at_is_refused(
    capped: boards.Machine, tiny_model: Path, wrong: str
) -> None:
    arguments = ["bench", "-m", str(tiny_model), "--root", str(capped.root), "--interval", wrong]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and done.stdout == ""
    assert f"an interval of {float(wrong):g} ms between readings" in done.stderr


def test_a_machine_that_tells_no_temperature_cannot_cool_down(
    tmp_path: Path, capped: boards.Machine, tiny_model: Path
) -> None:
    def refusal(root: Path, *flags: str) -> tuple[int, str]:
        arguments = ["bench", "-m", str(tiny_model), "--root", str(root), *flags]
        done = CliRunner().invoke(app, arguments)
        assert done.stdout == ""
        return done.exit_code, done.stderr

    code, said = refusal(capped.root, "--cool-down", "5", "--no-readings")
    assert code == 4 and "no temperature can be read here" in said
    code, said = refusal(boards.pc(tmp_path / "pc").root, "--cool-down", "5")
    assert code == 4 and "no temperature can be read here" in said
    code, said = refusal(capped.root, "--cool-down", "-1")
    assert code == 2 and "-1 s" in said


def test_a_cool_machine_does_not_wait(capped: boards.Machine, tiny_model: Path) -> None:
    code, _, err = bench_on(capped, tiny_model, "--cool-down", "600")
    assert code == 0 and "cooling down" not in err
