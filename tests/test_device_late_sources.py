"""Sources that are not there yet when sensors are opened, and come later."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import boards

from orin_llm.device.board import read_board
from orin_llm.device.reading import Reading
from orin_llm.device.source import SourceUnavailable
from orin_llm.device.sources import Sensors, open_sensors
from orin_llm.errors import DeviceUnavailable

TIMEOUT_S = 60


class Service:
    """What a source needs; it can be away, and it can keep who asks for it waiting."""

    def __init__(self) -> None:
        self.is_there = False
        self.asked = threading.Semaphore(0)
        self.answers = threading.Event()
        self.answers.set()
        self.opened: list[Late] = []

    def open(self) -> Late:
        self.asked.release()
        assert self.answers.wait(TIMEOUT_S)
        if not self.is_there:
            raise SourceUnavailable("the service does not run")
        self.opened.append(Late("jtop"))
        return self.opened[-1]


class Late:
    problem = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = threading.Event()

    def read(self) -> Reading:
        return Reading(0, (self.name,))

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def sensors(service: Service) -> Sensors:
    return Sensors(
        {
            "tegrastats": lambda: Late("tegrastats"),
            "jtop": service.open,
            "procfs": lambda: Late("procfs"),
        }
    )


@pytest.fixture
def without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orin_llm.device.sources._RETRY_S", 0.0)


def read_until(sensors: Sensors, done: Callable[[Reading], bool]) -> Reading:
    deadline = time.monotonic() + TIMEOUT_S
    while not done(reading := sensors.read()):
        assert time.monotonic() < deadline, sensors.unavailable
        time.sleep(0.001)
    return reading


@pytest.mark.usefixtures("without_pause")
def test_a_source_that_comes_later_is_read_in_its_place(service: Service, sensors: Sensors) -> None:
    assert sensors.unavailable == {"jtop": "the service does not run"}
    assert sensors.read().sources == ("tegrastats", "procfs")
    service.is_there = True
    reading = read_until(sensors, lambda reading: "jtop" in reading.sources)
    assert reading.sources == ("tegrastats", "jtop", "procfs")
    assert sensors.unavailable == {}
    sensors.close()
    assert service.opened[0].closed.is_set()


@pytest.mark.usefixtures("without_pause")
def test_a_source_that_is_there_is_not_opened_again(service: Service, sensors: Sensors) -> None:
    service.is_there = True
    read_until(sensors, lambda reading: "jtop" in reading.sources)
    for _ in range(100):
        sensors.read()
    assert len(service.opened) == 1 and len(sensors.sources) == 3


@pytest.mark.usefixtures("without_pause")
def test_reading_goes_on_while_a_source_keeps_who_opens_it_waiting(
    service: Service, sensors: Sensors
) -> None:
    service.asked.acquire()
    service.answers.clear()
    sensors.read()
    assert service.asked.acquire(timeout=TIMEOUT_S)
    for _ in range(100):  # would end with a failed assertion in `open` if it waited
        assert sensors.read().sources == ("tegrastats", "procfs")
    assert not service.asked.acquire(blocking=False)  # and it is asked once at a time
    service.answers.set()


@pytest.mark.usefixtures("without_pause")
def test_a_source_that_opens_after_the_end_is_closed(
    service: Service, sensors: Sensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.device.sources._END_S", 0.0)
    service.asked.acquire()
    service.answers.clear()
    sensors.read()
    assert service.asked.acquire(timeout=TIMEOUT_S)
    service.is_there = True
    sensors.close()
    assert all(source.closed.is_set() for source in sensors.sources)
    service.answers.set()
    while not service.opened:
        time.sleep(0.001)
    assert service.opened[0].closed.wait(TIMEOUT_S) and len(sensors.sources) == 2


def test_missing_sources_are_not_looked_for_at_every_reading(
    service: Service, sensors: Sensors
) -> None:
    service.asked.acquire()
    for _ in range(1000):
        sensors.read()
    assert not service.asked.acquire(blocking=False)


@pytest.mark.usefixtures("without_pause")
def test_after_the_end_nothing_is_looked_for(service: Service, sensors: Sensors) -> None:
    service.asked.acquire()
    sensors.close()
    sensors.read()
    assert not service.asked.acquire(timeout=0.1)


@pytest.mark.usefixtures("without_pause")
def test_tegrastats_that_is_installed_later_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("jtop", "pynvml"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    machine = boards.jetson(tmp_path, boards.AGX_64_JP6)
    monkeypatch.setenv("PATH", machine.path)
    away = tmp_path / "away"
    (machine.bin / "tegrastats").rename(away)
    with pytest.raises(DeviceUnavailable, match="no tegrastats on PATH"):
        open_sensors(read_board(machine.root), 100, "tegrastats", machine.root)
    with open_sensors(read_board(machine.root), 100, root=machine.root) as sensors:
        assert sensors.read().emc_percent is None
        away.rename(machine.bin / "tegrastats")
        reading = read_until(sensors, lambda reading: reading.emc_percent is not None)
        assert reading.sources == ("tegrastats", "sysfs", "procfs")
        assert set(sensors.unavailable) == {"jtop", "nvml"}
