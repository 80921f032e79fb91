"""What doctor reads of a machine: from trees that stand for /, with fake tools on PATH."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.boards import JETSONS, Machine, jetson, pc, pc_with_gpu
from models_support import TINY

from orin_llm.device.build import Build
from orin_llm.device.setup.snapshot import SNAPSHOT, Snapshot, save_snapshot
from orin_llm.device.setup.system import System
from orin_llm.doctor import look as looking
from orin_llm.doctor.catalogue import check
from orin_llm.doctor.look import look
from orin_llm.doctor.machine import Machine as Found
from orin_llm.doctor.machine import Swap
from orin_llm.doctor.software import UNIFIED_MEMORY
from orin_llm.errors import ModelFileError

Look = Callable[[Machine], Found]


@pytest.fixture(autouse=True)
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORIN_LLM_MODELS", str(tmp_path / "store"))


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = jetson(tmp_path, JETSONS["64GB-JP6"])
    made.tool("systemctl", "echo inactive; exit 3")
    monkeypatch.setenv("PATH", made.path)
    return made


def seen(machine: Machine) -> Found:
    return look(machine.root, None, 0, load=False)


@pytest.mark.parametrize("name", JETSONS)
def test_every_board_is_seen_with_its_mode_and_caps(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = jetson(tmp_path, JETSONS[name])
    monkeypatch.setenv("PATH", made.path)
    found = look(made.root, None, 0)
    assert found.power.now == found.power.at_boot and not found.power.by_setup
    assert found.power.now is not None and found.power.now.name == "MODE_30W"
    levels = {finding.check: finding.level for finding in check(found)}
    assert levels["power mode"] == levels["GPU units"] == "hurts"
    assert levels["jetson_clocks"] == levels["over-current"] == "warning"
    assert levels["GPU clock"] == "note"
    assert levels["temperature"] == levels["throttling"] == levels["free blocks"] == "ok"
    clock = "ok" if JETSONS[name].root else "unknown"
    assert levels["memory clock"] == levels["firmware's cap"] == clock
    assert found.under_load is not None and len(found.under_load.readings) > 2


def test_a_pc_has_no_load_and_no_trial_of_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pc(tmp_path)
    monkeypatch.setenv("PATH", made.path)
    found = look(made.root, None, 0)
    assert found.under_load is None and found.power.modes is None
    assert found.cuda is None or found.build.cuda


def test_a_pc_with_a_gpu_has_cuda_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pc_with_gpu(tmp_path)
    monkeypatch.setenv("PATH", made.path)
    assert seen(made).cuda is not None


def test_a_model_is_to_fit_the_gpus_own_memory_where_the_build_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pc_with_gpu(tmp_path)
    monkeypatch.setenv("PATH", made.path)
    path = tmp_path / "tiny.gguf"
    path.write_bytes(TINY)
    for cuda, available in ((True, 24000 << 20), (False, 16384000 // 2 * 1024)):
        build = Build(cuda=cuda, cuda_architectures="89", cuda_version="12.6")
        monkeypatch.setattr(looking, "build_info", lambda build=build: build)
        model = look(made.root, str(path), 0, load=False).model
        assert model is not None and model.fit is not None
        assert model.fit.budget.bytes == available


def test_a_tree_with_nothing_in_it_is_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    found = look(tmp_path / "nothing", None, 0)
    levels = {finding.check: finding.level for finding in check(found)}
    assert levels["build"] == levels["memory"] == "unknown"
    assert set(levels.values()) <= {"unknown", "warning"}


def test_a_board_of_which_only_its_name_can_be_read_is_survived(
    board: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for path in board.root.rglob("*"):
        if path.is_file() and path.name not in ("compatible", "nvmap"):
            path.unlink()
    found = seen(board)
    levels = {finding.check: finding.level for finding in check(found)}
    assert {"power mode", "GPU units", "jetson_clocks", "swap", "fan", "L4T", "desktop"} <= {
        name for name, level in levels.items() if level == "unknown"
    }


def test_no_load_measures_neither_memory_nor_disk(board: Machine, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(TINY)
    steps: list[str] = []
    found = look(board.root, str(path), 64, load=False, report=steps.append)
    assert found.under_load is None
    assert found.model is not None and found.model.disk is None and found.model.fit is not None
    assert not [step for step in steps if "under load" in step or "from the disk" in step]
    found = look(board.root, str(path), 64, report=steps.append)
    assert found.under_load is not None
    assert found.model is not None and found.model.disk is not None
    assert found.model.disk.bytes == len(TINY)
    assert [step for step in steps if "under load" in step]


def test_the_mode_of_the_next_boot_is_read_beside_the_one_in_force(board: Machine) -> None:
    board.write("var/lib/nvpmodel/status", "pmode:0000 fmode:fan_mode_quiet\n")
    power = seen(board).power
    assert power.now is not None and power.at_boot is not None
    assert (power.now.name, power.at_boot.name) == ("MODE_30W", "MAXN")


def test_a_mode_that_setup_has_set_is_known_by_its_record(board: Machine) -> None:
    save_snapshot(System(board.root), Snapshot({"fan": {"profile": "quiet"}}))
    assert not seen(board).power.by_setup
    save_snapshot(System(board.root), Snapshot({"power-mode": {"mode": "MODE_15W"}}))
    assert seen(board).power.by_setup
    board.write(SNAPSHOT.lstrip("/"), "{")
    assert not seen(board).power.by_setup


def test_swaps_are_read_and_garbage_among_them_is_left_out(board: Machine) -> None:
    assert seen(board).system.swaps is None
    board.write(
        "proc/swaps",
        "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 100 20 5\nx y z\n\n"
        "/swapfile file 1024 0 -2\n",
    )
    swaps = seen(board).system.swaps
    assert swaps == (Swap("/dev/zram0", 102400, 20480), Swap("/swapfile", 1 << 20, 0))
    assert [swap.is_zram for swap in swaps] == [True, False]


def test_a_desktop_is_known_by_its_process_or_its_target(board: Machine) -> None:
    board.write("proc/1/comm", "systemd\n")
    assert seen(board).system.desktop == ""
    board.tool("systemctl", '[ "$*" = "is-active graphical.target" ] && echo active')
    assert seen(board).system.desktop == "graphical.target"
    board.write("proc/812/comm", "gnome-shell\n")
    assert seen(board).system.desktop == "gnome-shell"


def test_without_processes_and_systemd_a_desktop_is_unknown(
    board: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert seen(board).system.desktop is None
    (board.root / "proc/7/comm").mkdir(parents=True)  # fails to be read, as those of others may
    assert seen(board).system.desktop is None
    board.write("proc/1/comm", "init\n")
    assert seen(board).system.desktop == ""


@pytest.mark.parametrize(
    ("status", "conf", "profile"),
    [
        ("FAN_PROFILE quiet\n", "FAN_DEFAULT_PROFILE cool", "quiet"),
        ("FAN1:FAN_PROFILE:cool\nFAN1:FAN_GOVERNOR:cont\n", "", "cool"),
        ("FAN1:FAN_PROFILE:cool\nFAN2:FAN_PROFILE:quiet\n", "", "quiet"),
        (None, "<FAN 1>\n" + "\t1 2 3\n" * 2000 + "\tFAN_DEFAULT_PROFILE cool\n", "cool"),
        (None, "# FAN_DEFAULT_PROFILE cool\n", None),
        (None, None, None),
    ],
)
def test_the_fans_profile_is_that_recorded_or_else_the_default(
    board: Machine, status: str | None, conf: str | None, profile: str | None
) -> None:
    if status is not None:
        board.write("var/lib/nvfancontrol/status", status)
    if conf is not None:
        board.write("etc/nvfancontrol.conf", conf)
    assert seen(board).system.fan_profile == profile


def test_what_holds_the_memorys_clock_and_where_nvcc_is(board: Machine) -> None:
    system = seen(board).system
    assert (system.emc_pinned, system.nvcc, system.cpu_hardware_mhz) == (None, "", None)
    board.write("sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked", "0\n")
    board.write("usr/local/cuda/bin/nvcc", "")
    board.write("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "2201600\n")
    board.write("sys/devices/system/cpu/cpu4/cpufreq/cpuinfo_max_freq", "1971200\n")
    system = seen(board).system
    assert (system.emc_pinned, system.nvcc) == (False, "/usr/local/cuda/bin/nvcc")
    assert system.cpu_hardware_mhz == 1971.2
    board.write("sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked", "1\n")
    assert seen(board).system.emc_pinned is True


def test_the_environment_is_that_of_the_process(
    board: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(UNIFIED_MEMORY, "0")
    found = [finding for finding in check(seen(board)) if finding.check == "unified memory"]
    assert [finding.level for finding in found] == ["hurts"]


def test_why_a_source_of_readings_is_silent_is_kept(board: Machine) -> None:
    (board.bin / "tegrastats").unlink()
    problems = seen(board).sensor_problems
    assert "tegrastats" in problems["tegrastats"] and "jtop" in problems


def test_a_model_that_was_named_has_to_be_there(board: Machine) -> None:
    assert seen(board).model is None  # the default one is not, and was not asked for
    with pytest.raises(ModelFileError):
        look(board.root, "no-such-model", 0, load=False)


def test_a_damaged_model_is_told_and_not_raised(board: Machine, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(TINY[: len(TINY) // 2])
    model = look(board.root, str(path), 0, load=False).model
    assert model is not None and model.problem != "" and model.fit is None


def test_the_context_asked_for_is_the_one_that_is_counted(board: Machine, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(TINY)
    model = look(board.root, str(path), 48, load=False).model
    assert model is not None and model.fit is not None and model.fit.ctx == 48
    assert model.fit.budget.bytes == 64349384 // 2 * 1024  # MemAvailable of the tree
    assert model.name == "tiny.gguf"


@pytest.mark.parametrize(
    ("device", "drive"),
    [("nvme0n1p1", "nvme"), ("mmcblk0p1", "mmc"), ("sda1", ""), ("dm-0", "")],
)
def test_the_drive_is_known_by_the_name_of_its_device(
    tmp_path: Path, device: str, drive: str
) -> None:
    number = tmp_path.stat().st_dev
    link = tmp_path / f"sys/dev/block/{os.major(number)}:{os.minor(number)}"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "devices" / device)
    assert looking._drive(tmp_path, tmp_path) == drive
    assert looking._drive(tmp_path, tmp_path / "other") == ""


def test_the_program_for_sudo_has_its_whole_path(board: Machine) -> None:
    found = seen(board)
    assert os.path.isabs(found.program) and found.program.endswith("/orin-llm")
    assert found.is_root == (os.geteuid() == 0)
