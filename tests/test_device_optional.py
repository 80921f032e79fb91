"""Readings of modules that need not be there: NVML and jtop, by stand-ins."""

from __future__ import annotations

import importlib
import sys
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
