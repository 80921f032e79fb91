"""Readings over time: kept in bounds, integrated to energy, aligned to what the engine did."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from fakes import boards
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.device.board import read_board
from orin_llm.device.curve import Area, Curve
from orin_llm.device.energy import EnergyMeter
from orin_llm.device.modules import MODULES
from orin_llm.device.phases import activity, step_phases
from orin_llm.device.reading import Reading
from orin_llm.device.sampler import Sampler
from orin_llm.device.sources import open_sensors
from orin_llm.device.tegrastats_line import parse_tegrastats
from orin_llm.engine import Engine, EngineConfig, Request
from orin_llm.engine.step_record import StepRecord
from orin_llm.errors import UsageError

PATIENCE_S = 60
TIMES = st.lists(st.integers(0, 10_000), min_size=2, max_size=30, unique=True).map(sorted)
WATTS = st.floats(0, 100)


class Script:
    """Sensors that say what they are told to, one after another."""

    def __init__(self, readings: Iterator[Reading]) -> None:
        self._readings = readings

    def read(self) -> Reading:
        return next(self._readings)


def sampled(readings: list[Reading], **options: int) -> Sampler:
    sampler = Sampler(Script(iter(readings)), **options)
    for _ in readings:
        sampler.sample()
    return sampler


def step(number: int, started_ms: float, duration_ms: float, prompt: int = 0) -> StepRecord:
    return StepRecord(number, started_ms, duration_ms, duration_ms, 0, prompt, 1, 0, 0, 0)


# energy


def test_constant_power_over_time_is_energy() -> None:
    meter = EnergyMeter(max_gap_ms=1000)
    for ms in range(0, 2001, 100):
        meter.add(ms, 30)
    assert meter.joules == pytest.approx(60) and meter.covered_ms == 2000


def test_a_ramp_of_power_is_integrated_by_trapezoids() -> None:
    meter = EnergyMeter(1000)
    meter.add(0, 10)
    meter.add(500, 30)
    assert meter.joules == pytest.approx(10)


def test_one_reading_is_no_energy_and_not_zero() -> None:
    meter = EnergyMeter(1000)
    assert meter.joules is None
    meter.add(0, 30)
    assert meter.joules is None and meter.covered_ms == 0


def test_a_gap_is_missing_not_guessed() -> None:
    meter = EnergyMeter(1000)
    for ms in (0, 1000, 5000, 6000):
        meter.add(ms, 10)
    assert meter.joules == pytest.approx(20) and meter.covered_ms == 2000


def test_readings_without_power_and_out_of_order_change_nothing() -> None:
    meter = EnergyMeter(1000)
    for ms, watt in ((0, 10.0), (500, None), (400, 10.0), (100, 99.0), (1000, 10.0)):
        meter.add(ms, watt)
    assert meter.joules == pytest.approx(10)


@given(TIMES, st.data())
def test_the_energy_meter_and_the_curve_agree(times: list[int], data: st.DataObject) -> None:
    watts = data.draw(st.lists(WATTS | st.none(), min_size=len(times), max_size=len(times)))
    meter = EnergyMeter(700)
    for at_ms, watt in zip(times, watts, strict=True):
        meter.add(at_ms, watt)
    whole = Curve(zip(times, watts, strict=True), 700).integrate(-1, 20_000)
    assert whole.covered_ms == pytest.approx(meter.covered_ms)
    assert whole.area / 1000 == pytest.approx(meter.joules or 0)


# the curve


@given(TIMES, st.data())
def test_a_curve_integrates_as_thin_slices_do(times: list[int], data: st.DataObject) -> None:
    values = data.draw(st.lists(WATTS, min_size=len(times), max_size=len(times)))
    start, end = sorted(data.draw(st.tuples(st.integers(-100, 10_100), st.integers(-100, 10_100))))
    found = Curve(zip(times, values, strict=True), 3000).integrate(start, end)
    area = covered = 0.0
    for (t0, v0), (t1, v1) in pairwise(zip(times, values, strict=True)):
        lo, hi = max(t0, start), min(t1, end)
        if hi > lo and t1 - t0 <= 3000:
            middle = v0 + (v1 - v0) * ((lo + hi) / 2 - t0) / (t1 - t0)
            area, covered = area + middle * (hi - lo), covered + hi - lo
    assert found.covered_ms == pytest.approx(covered)
    assert found.area == pytest.approx(area, abs=1e-3)


@given(TIMES, st.lists(st.integers(0, 10_000), min_size=3, max_size=3).map(sorted))
def test_parts_of_an_interval_add_up(times: list[int], cuts: list[int]) -> None:
    curve = Curve(((at, float(at % 97)) for at in times), 2000)
    a, b, c = cuts
    whole, left, right = curve.integrate(a, c), curve.integrate(a, b), curve.integrate(b, c)
    assert whole.area == pytest.approx(left.area + right.area, abs=1e-3)
    assert whole.covered_ms == pytest.approx(left.covered_ms + right.covered_ms)


def test_outside_of_its_readings_a_curve_covers_nothing() -> None:
    curve = Curve([(100, 5.0), (200, 5.0)], 1000)
    assert curve.integrate(0, 100) == curve.integrate(200, 300) == Area(0, 0)
    assert curve.integrate(0, 300) == Area(500, 100)
    assert curve.integrate(150, 150) == curve.integrate(180, 120) == Area(0, 0)


def test_one_reading_covers_nothing() -> None:
    assert Curve([(100, 5.0)], 1000).integrate(0, 200) == Area(0, 0)
    assert Curve([], 1000).integrate(0, 200) == Area(0, 0)


# alignment


def busy(at_ms: float, gpu: float, emc: float, watt: float) -> Reading:
    """What an Orin prints."""
    line = (
        f"GR3D_FREQ {gpu:g}%@[1300,1300] EMC_FREQ {emc:g}%@3199 "
        f"VDD_GPU_SOC {watt * 1000:g}mW VDD_CPU_CV 0mW VIN_SYS_5V0 0mW"
    )
    return parse_tegrastats(line, at_ms, MODULES["p3701-0005"])


def test_a_prefill_has_the_means_of_its_time() -> None:
    readings = [busy(ms, 10, 5, 10) for ms in range(0, 500, 100)]
    readings += [busy(ms, 92, 83.5, 31) for ms in range(500, 1600, 100)]
    found = activity(readings, [(600, 1400)], max_gap_ms=1000)
    assert found.text() == "92 % GPU, EMC 3199 MHz, 171 GB/s, 31.0 W"
    assert (found.duration_ms, found.covered_ms) == (800, 800)
    assert found.energy_j == pytest.approx(31 * 0.8)
    assert found.gpu_mhz == 1300 and found.emc_percent == pytest.approx(83.5)
    assert found.cpu_percent is None


def test_steps_of_prefill_and_decode_are_told_apart() -> None:
    readings = [busy(ms, 90, 30, 40) for ms in range(0, 1001, 50)]
    readings += [busy(ms, 60, 85, 25) for ms in range(1050, 2001, 50)]
    steps = [step(1, 100, 400, prompt=512), step(2, 500, 400, prompt=64)]
    steps += [step(3 + n, 1100 + 24 * n, 24) for n in range(30)]
    found = step_phases(readings, steps, max_gap_ms=1000)
    assert (found.prefill.duration_ms, found.decode.duration_ms) == (800, 720)
    assert found.prefill.gpu_percent == pytest.approx(90)
    assert found.decode.gpu_percent == pytest.approx(60)
    assert found.prefill.energy_j == pytest.approx(40 * 0.8)
    assert found.decode.energy_j == pytest.approx(25 * 0.72)
    assert found.decode.bandwidth_gb_s == pytest.approx(0.85 * 204.8)


def test_a_step_between_two_readings_has_the_value_between_them() -> None:
    readings = [busy(0, 0, 0, 10), busy(100, 100, 100, 30)]
    found = activity(readings, [(40, 60)], 1000)
    assert found.gpu_percent == pytest.approx(50) and found.power_w == pytest.approx(20)


def test_longer_steps_weigh_more_in_the_mean() -> None:
    readings = [busy(ms, 0, 0, 10) for ms in range(0, 500, 10)]
    readings += [busy(ms, 0, 0, 40) for ms in range(500, 1001, 10)]
    assert activity(readings, [(0, 300), (600, 700)], 1000).power_w == pytest.approx(17.5)


def test_what_no_reading_covers_is_missing_and_says_so() -> None:
    readings = [busy(ms, 50, 50, 20) for ms in range(0, 1001, 100)]
    after = activity(readings, [(2000, 3000)], 1000)
    assert (after.covered_ms, after.power_w, after.energy_j) == (0, None, None)
    assert after.text() == "no readings"
    half = activity(readings, [(500, 1500)], 1000)
    assert (half.duration_ms, half.covered_ms) == (1000, 500)
    assert half.power_w == pytest.approx(20) and half.energy_j == pytest.approx(10)


def test_a_sensor_that_fails_for_a_while_does_not_count_as_zero() -> None:
    readings = [busy(ms, 80, 50, 20) for ms in range(0, 5001, 100)]
    readings[10:40] = [Reading(reading.at_ms) for reading in readings[10:40]]
    found = activity(readings, [(0, 5000)], 1000)
    assert found.gpu_percent == pytest.approx(80) and found.covered_ms < 5000


def test_no_steps_are_no_activity() -> None:
    found = step_phases([busy(0, 1, 1, 1)], [], 1000)
    assert found.prefill.duration_ms == 0 and found.decode.power_w is None


# the sampler


@pytest.mark.parametrize("interval_ms", [9, 10_001, 0, -5, float("nan")])
def test_an_interval_out_of_bounds_is_refused(interval_ms: float) -> None:
    with pytest.raises(UsageError, match="not within 10 … 10000 ms"):
        Sampler(Script(iter([])), interval_ms)


def test_only_the_newest_readings_are_kept_but_all_of_the_energy() -> None:
    readings = [Reading(ms, ("x",), power_w=10) for ms in range(0, 10_001, 100)]
    sampler = sampled(readings, kept=10)
    assert sampler.readings() == readings[-10:]
    assert sampler.readings(after_ms=9900) == readings[-1:]
    assert sampler.latest == readings[-1]
    assert sampler.energy_j == pytest.approx(100)


def test_a_day_of_sampling_takes_no_more_memory_than_its_first_hour() -> None:
    line = boards.AGX_64_JP6.line
    agx = MODULES["p3701-0005"]
    seconds = 86_400

    def readings() -> Iterator[Reading]:
        # Every reading has objects of its own, as those of real lines have.
        for second in range(seconds):
            whole = parse_tegrastats(line, second * 1000.0, agx) if second % 20 == 0 else template
            yield replace(whole, at_ms=second * 1000.0, rails_w=dict(whole.rails_w))

    template = parse_tegrastats(line, 0, agx)
    sampler = Sampler(Script(readings()), 1000)
    tracemalloc.start()
    try:
        sizes = []
        for second in range(seconds):
            sampler.sample()
            if second % 7200 == 7199:
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert max(sizes) < 1.02 * sizes[0]
    assert sampler.energy_j == pytest.approx(boards.AGX_WATTS * (seconds - 1))


def until(fits: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not fits():
        assert time.monotonic() < end, "never came to be"
        time.sleep(0.005)


def clocked(power_w: float) -> Iterator[Reading]:
    while True:
        yield Reading(time.monotonic() * 1000, ("x",), power_w=power_w)


def test_a_block_is_sampled_to_its_end() -> None:
    with Sampler(Script(clocked(20)), interval_ms=10) as sampler:
        until(lambda: len(sampler.readings()) >= 5)
        end_ms = time.monotonic() * 1000
    times = [reading.at_ms for reading in sampler.readings()]
    assert times == sorted(set(times)) and times[-1] >= end_ms
    during = sampler.during(times[0], end_ms)
    assert during.covered_ms == pytest.approx(end_ms - times[0])
    assert during.power_w == pytest.approx(20)
    assert sampler.energy_j == pytest.approx(20 * (times[-1] - times[0]) / 1000)


def test_stopping_twice_is_stopping_once() -> None:
    with Sampler(Script(clocked(1)), 10) as sampler:
        sampler.stop()
        count = len(sampler.readings())
    assert len(sampler.readings()) == count
    assert "sampler" not in {thread.name for thread in threading.enumerate()}


def test_after_a_slow_reading_missed_ones_are_not_made_up_for() -> None:
    class SlowOnce(Script):
        slow = True

        def read(self) -> Reading:
            if self.slow:
                self.slow = False
                time.sleep(0.3)
            return super().read()

    with Sampler(SlowOnce(clocked(1)), interval_ms=10) as sampler:
        until(lambda: len(sampler.readings()) >= 8)
    times = [reading.at_ms for reading in sampler.readings()]
    assert times[7] - times[1] >= 50  # 30 made up for would come at once


def test_an_engines_own_steps_are_aligned_with_a_boards_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path
) -> None:
    machine = boards.jetson(tmp_path, boards.AGX_64_JP6)
    monkeypatch.setenv("PATH", machine.path)
    with (
        Engine(tiny_model, EngineConfig(n_ctx=256, threads=1)) as engine,
        open_sensors(read_board(machine.root), 10, "auto", machine.root) as sensors,
        Sampler(sensors, interval_ms=10) as sampler,
    ):
        until(lambda: len(sampler.readings()) >= 2)
        list(engine.complete(Request([1, 2, 3, 4, 5], max_tokens=20)))
        sampler.stop()
        phases = sampler.phases(engine.step_log())
    for phase in (phases.prefill, phases.decode):
        assert phase.duration_ms > 0 and phase.covered_ms == pytest.approx(phase.duration_ms)
        assert phase.power_w == pytest.approx(boards.AGX_WATTS)
        assert phase.gpu_percent == pytest.approx(92) and phase.emc_mhz == pytest.approx(3199)
        assert phase.energy_j == pytest.approx(boards.AGX_WATTS * phase.duration_ms / 1000)
