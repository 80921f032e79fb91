"""Sensors read under load: the load is real, bounded, and gone afterwards."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import interrupt, python, read_some, start

from orin_llm.device.probes import load
from orin_llm.device.probes.load import measure_under_load
from orin_llm.device.reading import Reading
from orin_llm.host.memory import Memory

MIB = 1 << 20
PATIENCE_S = 60
CORES = len(os.sched_getaffinity(0))


def copiers() -> int:
    return sum(thread.name == "memory load" for thread in threading.enumerate())


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


class Watch:
    """Sensors that see what the load takes."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.threads: list[int] = []
        self.resident: list[int] = []
        self._then = then

    def __call__(self) -> Reading:
        self.threads.append(copiers())
        self.resident.append(resident_bytes())
        self._then()
        return Reading(time.monotonic() * 1000)


def available(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    memory = Memory(64 << 30, size, 0, 0, None, limited=False)
    monkeypatch.setattr(load, "read_memory", lambda: memory)


def test_sensors_are_read_while_every_core_copies() -> None:
    watch = Watch()
    seen = measure_under_load(watch, seconds=0.5)
    assert len(seen.readings) == len(watch.threads) >= 1
    assert set(watch.threads) == {CORES}
    times = [reading.at_ms for reading in seen.readings]
    assert times == sorted(times)
    assert seen.copied_gb_s is not None and seen.copied_gb_s > 0


def test_there_is_a_reading_however_short_the_time() -> None:
    assert len(measure_under_load(Watch(), seconds=0).readings) == 1


def test_the_load_copies_all_the_time_that_sensors_are_read_and_all_copies_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[int] = []
    copy = load.np.copyto

    def counted(target: Any, source: Any) -> None:
        copy(target, source)
        copied.append(target.nbytes)

    monkeypatch.setattr(load.np, "copyto", counted)

    def wait_for_more() -> None:
        before = len(copied)
        wait_until(lambda: len(copied) >= before + 2 * CORES)

    start = time.perf_counter()
    seen = measure_under_load(Watch(wait_for_more), seconds=0.3)
    seconds = time.perf_counter() - start
    assert seen.copied_gb_s is not None
    # Each core's rate is of the part of this time in which it copied.
    assert seen.copied_gb_s >= 2 * sum(copied) / seconds / 1e9


def test_nothing_is_left_afterwards() -> None:
    measure_under_load(Watch(), seconds=0.1)  # what numpy keeps is not of the load
    before = resident_bytes()

    def wait_for_the_load() -> None:
        wait_until(lambda: resident_bytes() > before + 16 * MIB)

    measure_under_load(Watch(wait_for_the_load), seconds=0.1)
    assert copiers() == 0
    assert resident_bytes() < before + 8 * MIB


def test_nothing_is_left_when_reading_fails_even_while_the_error_is_held() -> None:
    measure_under_load(Watch(), seconds=0.1)
    before = resident_bytes()

    def fail() -> None:
        raise OSError("the sensor is gone")

    watch = Watch(fail)
    with pytest.raises(OSError, match="the sensor is gone") as error:
        measure_under_load(watch, seconds=30)
    assert watch.threads == [CORES]
    assert copiers() == 0
    assert resident_bytes() < before + 8 * MIB
    assert error.traceback


def test_ctrl_c_ends_the_load_at_once() -> None:
    program = """
        import threading, time
        from orin_llm.device.probes.load import measure_under_load
        from orin_llm.device.reading import Reading

        def read():
            print("reading", flush=True)
            return Reading(time.monotonic() * 1000)

        try:
            measure_under_load(read, seconds=600)
        except KeyboardInterrupt:
            print("left:", threading.active_count() - 1)
    """
    process = start(python(program))
    assert "reading" in read_some(process)
    output, errors = interrupt(process)
    assert output.splitlines()[-1] == "left: 0", errors
    assert process.returncode == 0


@pytest.mark.parametrize("core_mib", [8, 24])
def test_a_sixteenth_of_the_available_memory_is_the_most_that_is_used(
    monkeypatch: pytest.MonkeyPatch, core_mib: int
) -> None:
    sizes: list[int] = []
    ones = load.np.ones

    def recorded(size: int, kind: type) -> object:
        sizes.append(size)
        return ones(size, kind)

    monkeypatch.setattr(load.np, "ones", recorded)
    available(monkeypatch, 16 * CORES * core_mib * MIB)
    assert measure_under_load(Watch(), seconds=0.1).copied_gb_s is not None
    assert sizes == [core_mib * MIB // 2] * CORES


def test_with_much_memory_a_core_copies_within_64_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    available(monkeypatch, 1 << 40)
    before = resident_bytes()
    watch = Watch()
    measure_under_load(watch, seconds=0.3)
    assert max(watch.resident) < before + (64 * CORES + 8) * MIB


def test_with_too_little_memory_there_are_readings_without_a_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    available(monkeypatch, 16 * CORES * 8 * MIB - 1)
    watch = Watch()
    seen = measure_under_load(watch, seconds=0.1)
    assert len(seen.readings) == 1 and seen.copied_gb_s is None
    assert watch.threads == [0]


@pytest.mark.filterwarnings("error")  # an error that a thread ends with is a warning to pytest
def test_a_core_that_gets_no_memory_makes_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(size: int, kind: type) -> object:
        raise MemoryError

    monkeypatch.setattr(load.np, "ones", none)
    seen = measure_under_load(Watch(), seconds=0.1)
    assert len(seen.readings) == 1 and seen.copied_gb_s is None
