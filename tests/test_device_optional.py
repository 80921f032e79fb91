"""Readings of modules that need not be there: NVML and jtop, by stand-ins."""

from __future__ import annotations

import importlib
import queue
import sys
import time
import warnings
from itertools import repeat
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orin_llm.device.jtop import Jtop
from orin_llm.device.modules import MODULES
from orin_llm.device.nvml import Nvml
from orin_llm.device.reading import Core, Reading
from orin_llm.device.source import SourceUnavailable

FAKE_MODULES = Path(__file__).parent / "fakes" / "python"
AGX = MODULES["p3701-0005"]
TIMEOUT_S = 60


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
    assert fake.attached[0].closed.is_set()
    fake.ok_error = fake.start_error = None
    assert read_when_attached(source).gpu_percent == 92.5 and source.problem == ""
    fake.running = False
    assert source.read().sources == () and "has ended" in source.problem


def read_when_attached(source: Jtop) -> Reading:
    deadline = time.monotonic() + TIMEOUT_S
    while not (reading := source.read()).sources:
        assert time.monotonic() < deadline, source.problem
        time.sleep(0.001)
    return reading


def test_a_service_that_hangs_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orin_llm.device.jtop._ANSWER_S", 0.01)
    fake = jtop_of_an_orin(monkeypatch)
    fake.answers.clear()
    with pytest.raises(SourceUnavailable, match="jtop: the service does not answer"):
        Jtop(1000, AGX)
    fake.answers.set()
    deadline = time.monotonic() + TIMEOUT_S
    while not fake.attached:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert fake.attached[0].closed.wait(TIMEOUT_S)  # who comes too late is let go again


def test_reading_does_not_wait_for_a_service_to_which_it_is_attached_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orin_llm.device.jtop._RETRY_MS", 0)
    fake = jtop_of_an_orin(monkeypatch)
    source = Jtop(1000, AGX)
    fake.running = False
    source.read()
    fake.answers.clear()
    for _ in range(10):
        assert source.read().sources == () and source.problem == "jtop: the service has ended"
    fake.running = True
    fake.answers.set()
    assert read_when_attached(source).gpu_percent == 92.5
    assert len(fake.attached) == 2  # it was asked once


def test_values_that_no_longer_change_with_the_services_clock_are_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orin_llm.device.jtop._STALE_INTERVALS", 0)
    monkeypatch.setattr("orin_llm.device.jtop._STALE_MS", 0)
    fake = jtop_of_an_orin(monkeypatch)
    source = Jtop(1000, AGX)
    for _ in range(10):
        assert source.read().gpu_percent == 92.5
    fake.ticks = repeat(7)
    source.read()
    assert source.read().sources == () and "tells nothing new" in source.problem
    assert fake.attached[0].closed.is_set()


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (RuntimeError("Mismatch version.\nPlease run:\n\nsudo jtop"), "jtop: Mismatch version. "
         "Please run: sudo jtop"),
        (queue.Empty(), "jtop: Empty"),
        (EOFError(), "jtop: EOFError"),
        (PermissionError(13, "Permission denied"), "jtop: [Errno 13] Permission denied"),
    ],
)  # fmt: skip
def test_whatever_the_client_says_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, problem: str
) -> None:
    module(monkeypatch, "jtop").start_error = error
    with pytest.raises(SourceUnavailable) as unavailable:
        Jtop(1000)
    assert str(unavailable.value) == problem


def test_what_jtop_gives_for_want_of_a_value_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = jtop_of_an_orin(monkeypatch)
    fake.cpu["cpu"] = [{"online": True, "user": 0, "nice": 0, "system": 0, "idle": 0}]
    fake.memory["EMC"] = {"cur": 1, "val": 268716000, "online": True}
    fake.memory["RAM"]["shared"] = 0
    fake.gpu["gpu"]["power_control"] = "nvml"  # MHz instead of kHz
    reading = Jtop(1000, AGX).read()
    assert reading.cores == (Core(True, None, None),) and reading.cpu_percent is None
    assert reading.emc_percent is None and reading.emc_mhz is None
    assert reading.bandwidth_gb_s is None and reading.gpu_memory_used_bytes is None
    assert reading.gpu_percent is None and reading.gpu_mhz is None


def test_a_core_that_only_works_is_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = jtop_of_an_orin(monkeypatch)
    fake.cpu["cpu"] = [{"online": True, "user": 100.0, "nice": 0.0, "system": 0.0, "idle": 0.0}]
    assert Jtop(1000, AGX).read().cores == (Core(True, 100, None),)


@pytest.mark.parametrize(
    ("source", "package"),
    [("raise OSError('no SMBus')", "no SMBus"), ("import smbus_x", "smbus_x")],
)
def test_a_package_that_is_broken_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, package: str
) -> None:
    for name in ("jtop", "pynvml"):
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    for make in (lambda: Jtop(1000), Nvml):
        with pytest.raises(SourceUnavailable, match=f"cannot be used: .*{package}"):
            make()


def test_what_a_package_warns_of_when_it_is_imported_is_not_for_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pynvml.py").write_text(
        "import warnings\nwarnings.warn('deprecated', FutureWarning)\n"
        "raise OSError('no more than that')\n"
    )
    monkeypatch.delitem(sys.modules, "pynvml")
    monkeypatch.syspath_prepend(str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SourceUnavailable, match="no more than that"):
            Nvml()


def test_jtop_is_not_needed() -> None:
    with pytest.raises(SourceUnavailable, match="jetson-stats is not installed"):
        Jtop(1000)
