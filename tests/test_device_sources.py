"""Readings from each source on copies of machines, and from all of them together."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import boards

from orin_llm.device.board import read_board
from orin_llm.device.modules import MODULES
from orin_llm.device.procfs import Procfs
from orin_llm.device.reading import Core, Reading, merge
from orin_llm.device.source import SourceUnavailable
from orin_llm.device.sources import Sensors, open_sensors
from orin_llm.device.sysfs import Sysfs
from orin_llm.errors import DeviceUnavailable, UsageError

FAKE_MODULES = Path(__file__).parent / "fakes" / "python"
AGX = MODULES["p3701-0005"]
HWMON = "sys/class/hwmon/hwmon1"


@pytest.fixture(autouse=True)
def no_real_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optional modules are not installed, whatever this machine has."""
    for name in ("jtop", "pynvml"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]


@pytest.fixture
def orin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> boards.Machine:
    machine = boards.jetson(tmp_path, boards.AGX_64_JP6)
    monkeypatch.setenv("PATH", machine.path)
    return machine


@pytest.fixture
def pc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> boards.Machine:
    machine = boards.pc(tmp_path)
    monkeypatch.setenv("PATH", machine.path)
    return machine


# sysfs


@pytest.mark.parametrize("name", boards.JETSONS)
def test_the_kernel_files_of_each_board_tell_the_same(tmp_path: Path, name: str) -> None:
    board = boards.JETSONS[name]
    reading = Sysfs(boards.jetson(tmp_path, board).root).read()
    assert reading.sources == ("sysfs",)
    assert (reading.gpu_percent, reading.gpu_mhz) == (92, 612)
    assert reading.emc_mhz == (3199 if board.root else None)
    assert reading.emc_percent is None and reading.bandwidth_gb_s is None
    assert reading.temperatures_c == {"cpu": 55.5, "gpu": 53.25, "tj": 56}
    assert reading.rails_w == pytest.approx(
        {"VDD_GPU_SOC": 18, "VDD_CPU_CV": 5, "VIN_SYS_5V0": 8, "VDDQ_VDD2_1V8AO": 1.8}
    )
    assert reading.power_w == pytest.approx(boards.AGX_WATTS)
    assert reading.throttled == () and reading.over_current_events == 3
    assert reading.ram_total_bytes is None and reading.cores == ()


def test_what_slows_the_board_down_is_named(orin: boards.Machine) -> None:
    orin.write("sys/class/thermal/cooling_device2/cur_state", "1\n")
    assert Sysfs(orin.root).read().throttled == ("gpu",)


def test_below_zero_is_a_temperature(orin: boards.Machine) -> None:
    orin.write("sys/class/thermal/thermal_zone1/temp", "-12500\n")
    assert Sysfs(orin.root).read().temperatures_c["gpu"] == -12.5


def test_a_machine_without_known_sensors_does_not_have_the_source(pc: boards.Machine) -> None:
    with pytest.raises(SourceUnavailable, match="no sensor"):
        Sysfs(pc.root)


def test_sensors_that_vanish_are_missing_until_they_come_back(
    orin: boards.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.device.sysfs._SEARCH_MS", -1.0)
    sensors = Sysfs(orin.root)
    shutil.move(orin.root / HWMON, orin.root / "away")
    orin.write("sys/devices/platform/gpu.0/load", "")
    reading = sensors.read()
    assert "VDD_GPU_SOC" not in reading.rails_w and reading.power_w is None
    assert reading.gpu_percent is None and reading.gpu_mhz == 612
    shutil.move(orin.root / "away", orin.root / "sys/class/hwmon/hwmon7")
    assert sensors.read().power_w == pytest.approx(boards.AGX_WATTS)


def test_when_all_sensors_vanish_the_source_says_so_and_recovers(orin: boards.Machine) -> None:
    sensors = Sysfs(orin.root)
    shutil.move(orin.root / "sys", orin.root / "away")
    reading = sensors.read()
    assert reading == Reading(reading.at_ms) and sensors.problem == "no sensor can be read"
    shutil.move(orin.root / "away", orin.root / "sys")
    assert sensors.read().power_w == pytest.approx(boards.AGX_WATTS) and sensors.problem == ""


@pytest.mark.parametrize("garbage", [b"", b"\xff\xfe", b"9" * 5000, b"12x", b"-", b"\0" * 99])
def test_files_full_of_garbage_are_missing(orin: boards.Machine, garbage: bytes) -> None:
    sensors = Sysfs(orin.root)
    for path in orin.root.glob("sys/**/*"):
        if path.is_file():
            path.write_bytes(garbage)
    reading = sensors.read()
    assert reading.gpu_percent is None and reading.rails_w == {} and reading.power_w is None
    assert reading.temperatures_c == {} and reading.over_current_events is None


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter, unlike pytest's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_what_only_root_may_read_is_missing_for_others(open_folder: Path) -> None:
    machine = boards.jetson(open_folder, boards.AGX_64_JP6)
    (machine.root / "sys/kernel/debug").chmod(0o700 if os.geteuid() == 0 else 0)
    sensors = Sysfs(machine.root)
    was = os.geteuid()
    try:
        if was == 0:
            os.seteuid(65534)
        reading = sensors.read()
    finally:
        os.seteuid(was)
        (machine.root / "sys/kernel/debug").chmod(0o700)
    assert reading.emc_mhz is None and reading.gpu_percent == 92


# procfs


def test_the_load_of_cores_is_that_since_the_reading_before(
    pc: boards.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.device.procfs._WINDOW_MS", 0)
    source = Procfs(pc.root)
    pc.write("proc/stat", boards.proc_stat([110, 100, 150, 200], [990, 1000, 950, 900]))
    reading = source.read()
    assert [core.percent for core in reading.cores] == [10, 0, 50, 100]
    assert [core.mhz for core in reading.cores] == [1728] * 4
    assert reading.cpu_percent == 40


def test_waiting_for_a_disk_is_no_work_and_a_guest_is_not_counted_twice(
    pc: boards.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.device.procfs._WINDOW_MS", 0)
    pc.write("proc/stat", "cpu0 100 0 0 900 0 0 0 0 0 0\n")
    source = Procfs(pc.root)
    pc.write("proc/stat", "cpu0 110 0 0 920 30 20 10 10 10 0\n")
    assert source.read().cores[0].percent == 50


def test_a_load_is_not_known_before_time_has_passed(pc: boards.Machine) -> None:
    reading = Procfs(pc.root).read()
    assert reading.cores == (Core(True, None, 1728),) * 4 and reading.cpu_percent is None


def test_a_load_stays_that_of_the_last_window_when_read_more_often(
    pc: boards.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.device.procfs._WINDOW_MS", 0)
    source = Procfs(pc.root)
    pc.write("proc/stat", boards.proc_stat([150] * 4, [950] * 4))
    assert source.read().cpu_percent == 50
    monkeypatch.setattr("orin_llm.device.procfs._WINDOW_MS", 1e9)
    pc.write("proc/stat", boards.proc_stat([200] * 4, [950] * 4))
    assert source.read().cpu_percent == 50


def test_cores_that_are_switched_off_are_off(orin: boards.Machine) -> None:
    cores = Procfs(orin.root).read().cores
    assert [core.online for core in cores] == [True] * 8 + [False] * 4


def test_memory_of_the_kernel(orin: boards.Machine) -> None:
    reading = Procfs(orin.root).read()
    total = boards.AGX_64_JP6.ram_kib << 10
    assert (reading.ram_total_bytes, reading.ram_used_bytes) == (total, total // 2)
    assert reading.swap_used_bytes == total // 8
    assert reading.gpu_memory_used_bytes == 4 << 30


def test_a_proc_that_vanishes_is_a_problem_until_it_is_back(pc: boards.Machine) -> None:
    source = Procfs(pc.root)
    shutil.move(pc.root / "proc", pc.root / "away")
    reading = source.read()
    assert reading == Reading(reading.at_ms) and "cannot be read" in source.problem
    shutil.move(pc.root / "away", pc.root / "proc")
    assert len(source.read().cores) == 4 and source.problem == ""


@pytest.mark.parametrize("garbage", [b"", b"cpu0\n", b"cpu\xb2 1 2 3 4 5", b"cpu0 x x x x x\n\xff"])
def test_a_proc_full_of_garbage_is_missing(pc: boards.Machine, garbage: bytes) -> None:
    source = Procfs(pc.root)
    pc.write("proc/stat", garbage)
    assert source.read().cores == ()


@pytest.mark.parametrize(
    "garbage", [b"", b"\xff\xfe", b"MemTotal: x kB\n", b"MemTotal: \xc2\xb2 kB"]
)
def test_a_meminfo_full_of_garbage_is_missing(pc: boards.Machine, garbage: bytes) -> None:
    source = Procfs(pc.root)
    pc.write("proc/meminfo", garbage)
    reading = source.read()
    assert len(reading.cores) == 4 and reading.ram_total_bytes is None
    assert reading.swap_total_bytes is None and reading.ram_used_bytes is None


def test_no_proc_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable):
        Procfs(tmp_path)


# together


def test_each_value_is_of_the_first_source_that_has_it() -> None:
    best = Reading(1, ("a",), gpu_percent=0, rails_w={"GPU": 1.0}, temperatures_c={"cpu": 1})
    other = Reading(
        2, ("b",), gpu_percent=50, gpu_mhz=300, rails_w={"GPU": 9.0}, power_w=9,
        temperatures_c={"cpu": 9, "gpu": 9}, throttled=(), ram_used_bytes=4, ram_total_bytes=5,
    )  # fmt: skip
    merged = merge(3, [best, other])
    assert merged == Reading(
        3, ("a", "b"), gpu_percent=0, gpu_mhz=300, rails_w={"GPU": 1.0}, throttled=(),
        temperatures_c={"cpu": 1, "gpu": 9}, ram_used_bytes=4, ram_total_bytes=5,
    )  # fmt: skip


def test_a_total_is_never_of_other_rails_than_those_shown() -> None:
    merged = merge(0, [Reading(0, rails_w={"X": 1.0}), Reading(0, rails_w={"Y": 5.0}, power_w=5)])
    assert merged.rails_w == {"X": 1.0} and merged.power_w is None


def test_nothing_read_is_nothing_merged() -> None:
    assert merge(5, [Reading(1), Reading(2)]) == Reading(5)


def opened(machine: boards.Machine, choice: str = "auto", interval_ms: float = 100) -> Sensors:
    return open_sensors(read_board(machine.root), interval_ms, choice, machine.root)


def test_an_orin_has_its_own_tools_and_the_kernel(orin: boards.Machine) -> None:
    with opened(orin) as sensors:
        assert [source.name for source in sensors.sources] == ["tegrastats", "sysfs", "procfs"]
        assert sensors.unavailable == {
            "jtop": "jetson-stats is not installed",
            "nvml": "pynvml is not installed",
        }


def test_a_pc_has_what_every_linux_has(pc: boards.Machine) -> None:
    with opened(pc) as sensors:
        assert [source.name for source in sensors.sources] == ["procfs"]
        assert "tegrastats" in sensors.unavailable and "sysfs" in sensors.unavailable
        assert sensors.read().ram_total_bytes == 16384000 << 10


def test_what_is_read_more_often_than_tegrastats_prints_is_of_the_kernel(
    orin: boards.Machine,
) -> None:
    with opened(orin, interval_ms=10) as sensors:
        assert [source.name for source in sensors.sources][:2] == ["sysfs", "procfs"]


def test_one_source_can_be_chosen(orin: boards.Machine) -> None:
    with opened(orin, "sysfs") as sensors:
        assert sensors.read().sources == ("sysfs",)


def test_a_source_that_this_machine_lacks_is_told_with_the_reason(pc: boards.Machine) -> None:
    with pytest.raises(DeviceUnavailable, match="there is no tegrastats on PATH.*--source auto"):
        opened(pc, "tegrastats")
    with pytest.raises(UsageError, match="no source 'wattmeter': choose auto, tegrastats"):
        opened(pc, "wattmeter")


def test_this_machine_can_be_read() -> None:
    with open_sensors(read_board(), 1000) as sensors:
        assert sensors.read().ram_total_bytes
