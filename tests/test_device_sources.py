"""Readings from each source on copies of machines, and from all of them together."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fakes import boards

from orin_llm.device.board import read_board
from orin_llm.device.jtop import Jtop
from orin_llm.device.modules import MODULES
from orin_llm.device.nvml import Nvml
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


def module(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """A fresh stand-in for an optional module."""
    monkeypatch.syspath_prepend(str(FAKE_MODULES))
    monkeypatch.delitem(sys.modules, name)
    fresh: ModuleType = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, fresh)
    return fresh


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


# NVML


def test_nvml_tells_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    module(monkeypatch, "pynvml").answers.update(
        utilization=97, memory=(5 << 30, 24 << 30), milliwatt=312500, millijoule=9000, celsius=71,
        clock1=2520, clock2=10501, reasons=0x24,
    )  # fmt: skip
    reading = Nvml().read()
    assert reading == Reading(
        reading.at_ms,
        ("nvml",),
        gpu_percent=97,
        gpu_mhz=2520,
        emc_mhz=10501,
        gpu_memory_used_bytes=5 << 30,
        gpu_memory_total_bytes=24 << 30,
        temperatures_c={"gpu": 71},
        rails_w={"GPU": 312.5},
        power_w=312.5,
        energy_j=9,
        throttled=("power-cap", "thermal"),
    )


def test_nvml_of_a_gpu_that_idles_is_not_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    module(monkeypatch, "pynvml").answers.update(celsius=40, reasons=0x1)
    reading = Nvml().read()
    assert reading.throttled == () and reading.gpu_percent is None and reading.power_w is None


def test_nvml_that_answers_nothing_is_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = module(monkeypatch, "pynvml")
    with pytest.raises(SourceUnavailable, match="tells nothing"):
        Nvml()
    fake.answers["init_error"] = "Driver Not Loaded"
    with pytest.raises(SourceUnavailable, match="Driver Not Loaded"):
        Nvml()


def test_nvml_recovers_when_the_driver_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orin_llm.device.nvml._RETRY_MS", 0)
    fake = module(monkeypatch, "pynvml")
    fake.answers["utilization"] = 50
    source = Nvml()
    fake.answers.clear()
    reading = source.read()
    assert reading == Reading(reading.at_ms) and source.problem
    fake.answers["init_error"] = "Driver Not Loaded"
    assert source.read().sources == () and "Driver Not Loaded" in source.problem
    del fake.answers["init_error"]
    fake.answers["utilization"] = 60
    assert source.read().gpu_percent == 60 and source.problem == ""


# jtop


def jtop_of_an_orin(monkeypatch: pytest.MonkeyPatch) -> Any:
    fake = module(monkeypatch, "jtop")
    fake.memory.update(
        EMC={"val": 84, "cur": 3199000, "max": 3199000, "override": 0, "online": True},
        RAM={"tot": 64 << 20, "used": 16 << 20, "shared": 4 << 20, "lfb": 1000},
        SWAP={"tot": 32 << 20, "used": 0},
    )
    fake.gpu["gpu"] = {"status": {"load": 92.5}, "freq": {"cur": 1300500, "GPC": [1300500, 0]}}
    on = {"online": True, "user": 20.0, "idle": 75.0, "freq": {"cur": 1728000}}
    fake.cpu["cpu"] = [on, {"online": False}]
    fake.power["rail"] = {
        "VDD_GPU_SOC": {"power": 18000, "avg": 1}, "VDD_CPU_CV": {"power": 5000},
        "VIN_SYS_5V0": {"power": 8000}, "VDDQ_VDD2_1V8AO": {"power": 1800},
    }  # fmt: skip
    fake.power["tot"] = {"power": 32800}
    fake.temperature.update(CPU={"temp": 55.5, "online": True}, CV0={"temp": -256, "online": False})
    return fake


def test_jtop_tells_the_memorys_load_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    jtop_of_an_orin(monkeypatch)
    reading = Jtop(1000, AGX).read()
    assert (reading.emc_percent, reading.emc_mhz) == (84, 3199)
    assert reading.bandwidth_gb_s == pytest.approx(0.84 * 204.8)
    assert (reading.gpu_percent, reading.gpu_mhz) == (92.5, pytest.approx(1300.5))
    assert reading.cores == (Core(True, 25, 1728), Core(False))
    assert reading.ram_total_bytes == 64 << 30 and reading.gpu_memory_used_bytes == 4 << 30
    assert reading.temperatures_c == {"cpu": 55.5}


def test_the_total_of_jtop_which_counts_a_rail_twice_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = jtop_of_an_orin(monkeypatch)
    assert Jtop(1000, AGX).read().power_w == pytest.approx(31)
    fake.power.update(rail={"VDD_SOC": {"power": 900}}, tot={"name": "VDD_IN", "power": 5000})
    assert Jtop(1000, AGX).read().power_w == pytest.approx(5)


def test_jtop_that_knows_little_leaves_the_rest_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = jtop_of_an_orin(monkeypatch)
    for part in (fake.memory, fake.gpu, fake.cpu, fake.power, fake.temperature):
        part.clear()
    reading = Jtop(1000, AGX).read()
    assert reading == Reading(reading.at_ms, ("jtop",))


def test_jtop_of_another_version_is_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = module(monkeypatch, "jtop")
    fake.start_error = RuntimeError("Mismatch version jtop service: [4.2.2] and client: [4.2.1]")
    with pytest.raises(SourceUnavailable, match="Mismatch version"):
        Jtop(1000)


def test_jtop_is_attached_again_when_its_service_was_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orin_llm.device.jtop._RETRY_MS", 0)
    fake = jtop_of_an_orin(monkeypatch)
    source = Jtop(1000, AGX)
    fake.ok_error = fake.start_error = ConnectionError("Lost connection with jtop server")
    for _ in range(2):
        reading = source.read()
        assert reading == Reading(reading.at_ms) and "Lost connection" in source.problem
    fake.ok_error = fake.start_error = None
    assert source.read().gpu_percent == 92.5 and source.problem == ""
    fake.running = False
    assert source.read().sources == () and "has ended" in source.problem


def test_jtop_is_not_needed() -> None:
    with pytest.raises(SourceUnavailable, match="jetson-stats is not installed"):
        Jtop(1000)


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
