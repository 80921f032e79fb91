"""`scripts/board_check.sh` on a simulated board and a PC, interrupted, twice, used wrongly."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from board_check_support import BENCH, GREEDY, MAXN, ROOT, SECRETS, Checkout, make_checkout
from fakes import boards
from processes import interrupt

Make = Callable[..., Checkout]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda board=MAXN: make_checkout(tmp_path / "checkout", board)


def test_a_board_in_order_passes_and_its_archive_has_lines_and_no_names(make: Make) -> None:
    checkout = make()
    done = checkout.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(checkout.status().values()) == {"done"}
    assert "15 passed, 0 failed, 0 not run" in done.stdout
    assert "bench     its TTFT and TPOT: p512 n128: TTFT 88.1 ms, TPOT 5.25 ms" in done.stdout
    texts = checkout.archived()
    line = checkout.machine.root / "../bin/tegrastats.lines"
    assert texts["collected/tegrastats.idle.txt"].startswith(line.read_text())
    assert "Features : fp asimd" in texts["collected/facts/proc.cpuinfo.txt"]
    for name, text in {**texts, "stdout": done.stdout}.items():
        found = [value for value in SECRETS if value.lower() in text.lower()]
        assert not found, (name, found, text)
    assert texts["logs/bench.err"] == (
        "on <host-1> (<serial-1>), <mac-1>, inet <ip-1>/24, ~/x of <name-1>\n"
    )
    assert "names of hosts" in texts["README.txt"]
    for name in ("record.json", "collected/facts.json", "logs/setup.out", "logs/monitor.out"):
        json.loads(texts[name])
    assert f"archive: {checkout.results}/board-check.tar.gz (" in done.stdout
    with gzip.open(checkout.results / "board-check.tar.gz") as packed:
        assert b"zora" not in packed.read().lower()


def test_nothing_is_done_again_once_it_is_done(make: Make) -> None:
    checkout = make()
    checkout.run()
    before = checkout.calls()
    assert checkout.run().returncode == 0 and checkout.calls() == before
    assert checkout.run("--fresh", "--only", "model").returncode == 1
    assert list(checkout.status()) == ["model"]


def test_a_board_that_is_held_back_says_so_first_and_how_to_set_it(make: Make) -> None:
    checkout = make(replace(boards.AGX_64_JP6, emc_mhz=2133, emc_firmware_mhz=2133))
    done = checkout.run("--only", "facts")
    notes = done.stderr.splitlines()
    assert notes[0] == (
        "note: power mode MODE_30W (4 TPCs, GPU up to 612.0 MHz):"
        " sudo .venv/bin/orin-llm setup apply --only power-mode"
    )
    assert notes[1].startswith("note: memory up to 2133 of 3199 MHz:")
    assert notes[2].startswith("note: clocks are not pinned") and "goes on" in notes[3]
    assert checkout.archived()["SUMMARY.txt"].startswith("note      power mode MODE_30W")


def test_the_checks_of_the_doctor_that_hurt_are_in_the_list_with_what_to_do(make: Make) -> None:
    checkout = make()
    hurts = {"level": "hurts", "check": "swap", "found": "zram", "fix": "setup zram"}
    checkout.answers("doctor", {"checks": [hurts]})
    (checkout.fake / "doctor.status").write_text("1")
    done = checkout.run("--only", "build", "--only", "doctor")
    assert "not so: doctor: swap: zram" in done.stdout and "to do: setup zram" in done.stdout
    assert checkout.status()["doctor"] == "failed"


def test_lines_of_tegrastats_of_another_shape_are_told_and_kept(make: Make) -> None:
    checkout = make()
    line = f"{MAXN.line} NEWTHING=7?".replace("GR3D_FREQ", "GPU_LOAD")
    checkout.machine.tegrastats(line)
    done = checkout.run("--only", "idle")
    assert "lines lack gpu_percent: " in done.stdout and checkout.status()["idle"] == "failed"
    assert "NEWTHING=7?" in checkout.record()["steps"]["idle"]["result"]["words_that_are_not_read"]
    assert checkout.archived()["collected/tegrastats.idle.txt"].startswith(line)


def test_another_processor_and_a_clock_that_stays_low_are_no_pass(make: Make) -> None:
    checkout = make(replace(MAXN, emc_mhz=2133))
    checkout.machine.write("proc/cpuinfo", "Features : asimd asimdhp fphp i8mm\n")
    done = checkout.run("--only", "facts", "--only", "build", "--only", "model", "--only", "bench")
    assert "no more: no dotprod, i8mm" in done.stdout
    assert "memory's clock is at its highest under load: 2133.0 MHz" in done.stdout
    assert checkout.status()["bench"] == "failed"


def test_a_container_that_hides_the_device_tree_is_on_a_board_all_the_same(make: Make) -> None:
    checkout = make()
    shutil.rmtree(checkout.machine.root / "proc/device-tree")
    checkout.machine.write("sys/devices/soc0/family", "Tegra\n")
    checkout.machine.write("sys/devices/soc0/soc_id", "35\n")
    done = checkout.run("--only", "facts")
    assert checkout.status()["facts"] == "done"
    assert "cannot be told: it is a Jetson AGX Orin: nvidia,tegra234" in done.stdout


def test_without_root_the_clock_of_the_memory_cannot_be_told(make: Make) -> None:
    checkout = make(MAXN.without_root())
    done = checkout.run("--only", "build", "--only", "model", "--only", "bench")
    assert "cannot be told: the memory's clock is at its highest under load: only" in done.stdout
    assert "None" not in done.stdout
    assert checkout.status()["bench"] == "done"


def test_a_pc_says_that_it_is_none_and_runs_what_a_cpu_can(make: Make) -> None:
    checkout = make(None)
    done = checkout.run()
    assert done.returncode == 1
    assert done.stderr.startswith("note: this is no Jetson")
    assert "cannot be told: glibc" not in done.stdout  # a PC's can
    found = checkout.status()
    skipped = {name for name, status in found.items() if status == "skipped"}
    assert skipped == {"idle", "setup", "kernels", "engine", "greedy", "large"}
    assert found["facts"] == "failed" and found["parity"] == found["bench"] == "done"


def test_a_build_that_fails_leaves_the_rest_not_run_and_an_archive(make: Make) -> None:
    checkout = make()
    (checkout.fake / "build.status").write_text("3")
    done = checkout.run()
    assert done.returncode == 1
    assert checkout.status() == {
        "facts": "done", "idle": "done", "build": "failed", "core": "done",
        **dict.fromkeys(
            ("doctor", "monitor", "setup", "model", "bench", "kernels", "engine", "greedy",
             "parity", "large", "trace"), "skipped",
        ),
    }  # fmt: skip
    assert "ended by exit status 3" in done.stdout and "needs build, which is failed" in done.stdout
    assert "ended by exit status 3" in checkout.archived()["SUMMARY.txt"]
    assert not any(value in checkout.archived()["logs/build.out"] for value in SECRETS)


def test_a_step_that_hangs_ends_with_the_time_and_the_rest_is_dropped(make: Make) -> None:
    checkout = make()
    checkout.run("--only", "build")
    (checkout.fake / "doctor.hangs").touch()
    begin = time.monotonic()
    done = checkout.run("--only", "doctor", "--only", "monitor", "--minutes", "0.1")
    assert time.monotonic() - begin < 60 and done.returncode == 1
    found = checkout.status()
    assert found["doctor"] == "failed" and "its time limit" in done.stdout
    assert found["monitor"] == "dropped"
    assert done.stdout.count("to do: scripts/board_check.sh again") == 1


def start_hanging(checkout: Checkout, *, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    (checkout.fake / "bench.hangs").touch()
    process = subprocess.Popen(
        checkout.command(), env=checkout.environment(), stdout=stdout, stderr=subprocess.PIPE,
        text=True, cwd=checkout.folder,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("bench:"):
            break
    return process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_leaves_an_archive_of_what_there_is_and_the_next_call_goes_on(
    make: Make, number: signal.Signals, code: int
) -> None:
    checkout = make()
    process = start_hanging(checkout)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code and "the same command goes on from here" in err
    assert checkout.status()["bench"] == "interrupted" and "trace" not in checkout.status()
    assert "not run   bench" in out and "not run   bench" in checkout.archived()["SUMMARY.txt"]
    (checkout.fake / "bench.hangs").unlink()
    assert checkout.run().returncode == 0
    assert checkout.calls().count("doctor") == checkout.calls().count("build") == 1


def test_a_second_signal_does_not_cost_the_archive(make: Make) -> None:
    checkout = make()
    process = start_hanging(checkout)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    out, _ = interrupt(process)
    assert "archive: " in out and checkout.archived()


def test_who_has_stopped_reading_costs_nothing(make: Make) -> None:
    checkout = make()
    reader, writer = os.pipe()
    process = start_hanging(checkout, stdout=writer)
    os.close(reader)
    os.close(writer)
    assert process.stderr is not None
    process.stderr.close()  # the terminal is gone, too
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 129 and checkout.archived()


def test_two_at_once_are_refused(make: Make) -> None:
    checkout = make()
    process = start_hanging(checkout)
    second = checkout.run()
    assert second.returncode == 1
    assert f"error: process {process.pid} is at work in {checkout.results}: wait" in second.stderr
    interrupt(process)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--minutes", "0"], "--minutes 0: expected more than 0"),
        (["--minutes", "nan"], "expected more than 0"),
        (["--only", "nonsense"], "no step 'nonsense': scripts/board_check.sh --list names them"),
        (["--model", "none.gguf"], "--model none.gguf: no such file"),
        (["--nonsense"], "unrecognized arguments"),
    ],
)
def test_wrong_usage_is_told_and_nothing_is_run(
    make: Make, arguments: list[str], said: str
) -> None:
    checkout = make()
    done = checkout.run(*arguments)
    assert done.returncode == 2 and said in done.stderr
    assert checkout.calls() == [] and not list(checkout.results.glob("*.*"))


def test_results_of_another_model_are_not_gone_on_with(make: Make) -> None:
    checkout = make()
    checkout.run("--only", "facts", "--model", "mine")
    done = checkout.run("--only", "facts", "--model", "other")
    assert done.returncode == 2 and "--fresh begins again" in done.stderr
    assert checkout.run("--only", "facts", "--model", "other", "--fresh").returncode == 1
    assert checkout.record()["of"]["model"] == "other"


def test_a_model_of_the_owner_is_measured_and_its_folder_is_not_told(make: Make) -> None:
    checkout = make()
    model = checkout.folder / "fake/secret-project/mine.gguf"
    model.parent.mkdir()
    model.write_bytes(b"GGUF")
    assert checkout.run("--model", str(model)).returncode == 0
    # The command for root does not name it again.
    assert checkout.run("--only", "facts", "--only", "large").returncode == 0
    texts = checkout.archived()
    assert not any("secret-project" in text for text in texts.values())
    assert "-m <models>/mine.gguf" in texts["record.json"]
    assert not (checkout.results / "models").exists()


def test_what_an_earlier_call_knew_is_taken_out_by_every_later_one(make: Make) -> None:
    checkout = make()
    checkout.answers("log", "corp zq81kkw0plm44\n")
    for variables in ({"CORP_TOKEN": "zq81kkw0plm44"}, {}):
        checkout.run("--only", "build", **variables)
        texts = checkout.archived()
        assert "corp <token-1>" in texts["logs/build.out"]
        assert not any("zq81kkw0plm44" in text for text in texts.values())
    assert (checkout.results / "secrets.json").stat().st_mode & 0o777 == 0o600
    checkout.run("--only", "facts", "--fresh")
    assert "zq81kkw0plm44" not in (checkout.results / "secrets.json").read_text()


def test_a_check_of_the_gpu_that_finds_nothing_has_not_passed_because_of_an_earlier_one(
    make: Make,
) -> None:
    checkout = make()
    only = ("--only", "build", "--only", "kernels")
    checkout.run(*only)
    assert checkout.status()["kernels"] == "done"
    (checkout.fake / "gpu_check").unlink()
    checkout.run(*only)
    assert checkout.status()["kernels"] == "failed"


@pytest.mark.parametrize(
    ("name", "answer", "step", "said"),
    [
        ("info", {"cuda": True, "cuda_architectures": "80-real", "why": "nvcc"}, "build",
         "not so: the module is built with CUDA for sm_87: 80-real: nvcc"),
        ("bench", {**BENCH, "machine": {"device": "cpu"}}, "bench",
         "not so: the model answers on the GPU: cpu"),
        ("gpu_check", {"steps": {"greedy": {"result": {**GREEDY, "agrees": False}}}}, "greedy",
         "not so: texts are the CPU's, or part at ties"),
        ("junit", '<testsuite><testcase classname="a" name="b"/></testsuite>', "parity",
         "no test of these files has run: test_graph_edit, "),
        ("pytest.status", "2", "parity", "pytest ended by exit status 2"),
    ],
)  # fmt: skip
def test_what_is_not_as_it_should_be_is_no_pass(
    make: Make, name: str, answer: object, step: str, said: str
) -> None:
    checkout = make()
    needed = (arg for name in ("build", "model", step) for arg in ("--only", name))
    checkout.answers(name, answer)
    done = checkout.run(*needed)
    assert said in done.stdout and checkout.status()[step] == "failed"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_sudo_makes_belongs_to_the_user(make: Make) -> None:
    checkout = make()
    checkout.run("--only", "facts", SUDO_UID="12345", SUDO_GID="12346")
    for path in (checkout.folder / "build", checkout.results / "collected/facts.json"):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)
    os.chown(checkout.folder / "build", 777, 777)
    checkout.run("--only", "facts", SUDO_UID="12345", SUDO_GID="12346")
    assert (checkout.folder / "build").stat().st_uid == 777  # it was there, another user's


@pytest.mark.parametrize("place", ["file/below", "/proc/nothing"])
def test_a_folder_that_cannot_be_written_is_an_error_with_what_to_do(
    make: Make, place: str
) -> None:
    checkout = make()
    (checkout.folder / "file").touch()
    done = checkout.run("--out", place)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "error: " in done.stderr and "--out" in done.stderr


def test_a_full_disk_is_told_before_anything_is_run(make: Make) -> None:
    checkout = make()
    main = checkout.folder / "scripts/board_check/__main__.py"
    main.write_text(main.read_text().replace("100 << 20", "1 << 60"))
    done = checkout.run()
    assert done.returncode == 1 and "not enough room in" in done.stderr and not checkout.calls()


def test_a_python_that_is_too_old_is_told(make: Make, tmp_path: Path) -> None:
    checkout = make()
    (checkout.folder / ".venv/bin/python").unlink()
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho 'error: Python 3.8 is too old' >&2\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        checkout.command(), env={**checkout.environment(), "PYTHON": str(old)}, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 4 and "Python 3.8 is too old" in done.stderr


def test_checks_begin_without_any_package_that_the_build_would_bring() -> None:
    """Under Python 3.10 tomli is one, and pip may be missing, too."""
    program = (
        "import sys, board_check.__main__, arm64_check.__main__, gpu_check.__main__;"
        " print({'tomllib', 'tomli', 'pip', 'numpy'} & sys.modules.keys())"
    )
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/scripts"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env=variables, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "set()\n", done.stderr


def test_the_steps_of_the_manual_are_those_that_there_are(make: Make) -> None:
    listed = make().run("--list").stdout.splitlines()
    manual = (ROOT / "docs/board-check.md").read_text()
    assert len(listed) == 15
    for line in listed:
        assert f"| `{line.split()[0]}`" in manual, line
