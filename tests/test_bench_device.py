"""Readings of a run set against its tokens and bytes, by phase."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bench_support import request, run_of, step
from fake_headers import FakeTensor, header, llama_3_8b

from orin_llm.bench.device_use import DeviceUse, device_use
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.phase_work import phase_work
from orin_llm.bench.records import Run
from orin_llm.bench.runner import EngineRunner
from orin_llm.bench.streams import Streams
from orin_llm.bench.traffic import Traffic
from orin_llm.device.modules import AGX_ORIN_64GB
from orin_llm.device.reading import Reading
from orin_llm.device.sampler import Sampler
from orin_llm.engine import Engine, EngineConfig
from orin_llm.engine.loaded_model import read_model_header
from orin_llm.gguf.footprint import bytes_read_per_token, kv_bytes_per_token

# Prefill of 100 tokens in 1000 ms, then four steps of decode of 250 ms each.
STEPS = (
    step(1, 0, 1000, prompt=100, decode=0),
    *(step(n, 500 + 250 * n, 250) for n in range(2, 6)),
)
REQUEST = request([1000, 1250, 1500, 1750, 2000], submitted_ms=0, prompt_tokens=100)


def reading(at_ms: float, power_w: float | None = None, **more: object) -> Reading:
    return replace(Reading(at_ms, power_w=power_w), **more)  # type: ignore[arg-type]


def run_with(*readings: Reading) -> Run:
    return Run((REQUEST,), STEPS, readings=readings)


def used(*readings: Reading) -> DeviceUse:
    found = device_use([run_with(*readings)])
    assert found is not None
    return found


def test_without_readings_nothing_is_told_of_the_device() -> None:
    assert device_use([run_with()]) is None


def test_each_phase_has_the_power_of_its_own_time_and_joules_of_its_own_tokens() -> None:
    found = used(reading(0, 40), reading(999.9, 40), reading(1000.1, 20), reading(2000, 20))
    assert (found.prefill.tokens, found.decode.tokens, found.whole.tokens) == (100, 4, 5)
    assert found.prefill.joules_per_token == pytest.approx(40 * 1 / 100, rel=1e-3)
    assert found.decode.joules_per_token == pytest.approx(20 * 1 / 4, rel=1e-3)
    assert found.whole.joules_per_token == pytest.approx(60 / 5, rel=1e-3)
    assert (found.prefill.samples, found.decode.samples, found.whole.samples) == (2, 2, 4)


def test_energy_is_not_told_where_power_was_read_for_half_of_the_time() -> None:
    found = used(*(reading(ms, 30) for ms in range(0, 501, 100)))
    assert found.prefill.activity.power_w == 30
    assert found.prefill.joules_per_token is None and found.decode.joules_per_token is None


def test_what_throttled_at_any_time_is_told_and_nothing_where_nothing_tells() -> None:
    assert used(reading(0), reading(2000)).throttled is None
    assert used(reading(0, throttled=()), reading(2000)).throttled == ()
    found = used(
        reading(0, throttled=("gpu",)), reading(9), reading(2000, throttled=("cpu", "gpu"))
    )
    assert found.throttled == ("cpu", "gpu")


def test_over_current_is_counted_from_before_each_run_to_after_it() -> None:
    first = run_with(reading(0, over_current_events=5), reading(2000, over_current_events=7))
    second = run_with(
        reading(5000, over_current_events=100), reading(6000, over_current_events=101)
    )
    found = device_use([first, second])
    assert found is not None and found.over_current_events == 3


def test_clocks_are_those_under_load_not_those_around_it() -> None:
    readings = [reading(-5, emc_mhz=204), reading(100, emc_mhz=3199), reading(1500, emc_mhz=2133)]
    found = used(*readings, reading(2005, emc_mhz=204))
    assert found.emc_mhz_spread == (2133, 3199) and found.gpu_mhz_spread is None


def test_phases_without_steps_are_taken_apart_by_the_last_first_token() -> None:
    run = Run((REQUEST,), readings=(reading(0, 40), reading(1000, 40), reading(2000, 40)))
    found = device_use([run])
    assert found is not None
    assert found.prefill.activity.duration_ms == 1000 and found.decode.activity.duration_ms == 1000
    assert (found.prefill.tokens, found.decode.tokens, found.whole.tokens) == (100, 4, 5)
    assert found.prefill.read_gb_s is None


def test_decode_reads_all_weights_and_the_cache_of_the_sequence_in_each_step(
    smollm2: Path,
) -> None:
    header = read_model_header(smollm2)
    traffic = Traffic(header, "f16")
    steps = [replace(step(1, 0, 100, prompt=50, decode=0), kv_tokens=50)]
    steps += [replace(step(n, 100 * n, 100), kv_tokens=49 + n) for n in (2, 3)]
    steps += [replace(step(4, 400, 100), kv_tokens=0)]  # the request ended in it
    weights, token = bytes_read_per_token(header), kv_bytes_per_token(header)
    assert list(traffic.steps_bytes(steps)) == [weights + n * token for n in (50, 51, 52, 53)]


def test_of_a_batch_the_weights_are_read_once_and_the_cache_of_each() -> None:
    model = llama_3_8b()
    batch = replace(step(1, 0, 100, decode=16), kv_tokens=16 * 1000)
    (found,) = Traffic(model, "f16").steps_bytes([batch])
    assert found == 4_617_398_784 + 16_000 * 131_072
    (found,) = Traffic(model, "q8_0").steps_bytes([batch])
    assert found == 4_617_398_784 + 16_000 * 69_632


def test_a_layer_with_a_window_reads_no_more_of_each_sequence_than_that() -> None:
    sizes = {"embedding_length": 64, "attention__head_count": 4, "attention__head_count_kv": 4}
    window = {"attention__sliding_window": 100, "attention__sliding_window_pattern": [True, False]}
    model = header("x", block_count=2, **sizes, **window)
    batch = replace(step(1, 0, 100, decode=4), kv_tokens=4 * 1000)
    (found,) = Traffic(model, "f16").steps_bytes([batch])
    token = 2 * 64 * 2  # K and V of a layer, f16
    assert found == 4 * (100 + 1000) * token


def test_which_experts_several_tokens_need_together_is_not_known() -> None:
    experts = FakeTensor("blk.0.ffn_up_exps.weight", "F16", (64, 128, 8))
    model = header("qwen3moe", (experts,), block_count=1, expert_count=8, expert_used_count=2)
    alone, batch = step(1, 0, 100), step(2, 100, 100, decode=2)
    assert list(Traffic(model, "f16").steps_bytes([alone, batch])) == [experts.nbytes // 4, None]
    run = Run((REQUEST,), (alone, batch), readings=(reading(0), reading(2000)))
    found = device_use([run], Traffic(model, "f16"))
    assert found is not None and found.decode.read_gb_s is None


def test_the_part_of_the_peak_is_of_the_peak_at_the_clock_under_load(smollm2: Path) -> None:
    traffic = Traffic(read_model_header(smollm2), "f16")
    capped = [reading(ms, emc_mhz=2133) for ms in (0, 1000, 2000)]
    found = device_use([run_with(*capped)], traffic, AGX_ORIN_64GB)
    assert found is not None and found.decode.read_gb_s is not None
    peak = 204.8 * 2133 / 3199
    assert found.decode.of_peak == pytest.approx(found.decode.read_gb_s / peak)
    unknown = device_use([run_with(reading(0), reading(2000))], traffic, AGX_ORIN_64GB)
    assert unknown is not None and unknown.decode.of_peak is None


class Steady:
    """Sensors that always say the same."""

    def read(self) -> Reading:
        return Reading(time.monotonic() * 1000, power_w=25, gpu_percent=90)


@pytest.fixture(scope="module")
def engine(smollm2: Path) -> Iterator[Engine]:
    with Engine(smollm2, EngineConfig(n_ctx=256, threads=1, max_batch=2)) as engine:
        yield engine


def test_a_run_has_the_readings_from_right_before_it_to_right_after_it(engine: Engine) -> None:
    workload = Streams(1, Lengths(30, 30), Lengths(12, 12)).build(engine.n_vocab, 0)
    with Sampler(Steady(), interval_ms=10) as sampler:
        run = EngineRunner(engine, sampler).run(workload)
    (record,) = run.requests
    times = [found.at_ms for found in run.readings]
    assert times == sorted(set(times))
    assert times[0] <= record.submitted_ms and times[-1] >= record.finished_ms
    assert times[1] > record.submitted_ms - 50  # not those of long before
    found = device_use([run], Traffic(engine.header, "f16"))
    assert found is not None
    assert found.prefill.activity.power_w == pytest.approx(25)
    assert found.decode.tokens == 11 and found.prefill.tokens == 30
    seconds = found.decode.activity.duration_ms / 1e3
    assert found.decode.joules_per_token == pytest.approx(25 * seconds / 11)


def test_without_a_sampler_a_run_has_no_readings(engine: Engine) -> None:
    workload = Streams(1, Lengths(5, 5), Lengths(2, 2)).build(engine.n_vocab, 0)
    assert EngineRunner(engine).run(workload).readings == ()


def test_requests_that_come_while_others_are_answered_have_no_phases_of_their_own() -> None:
    """Without steps nothing tells what a moment was spent on."""
    first = request([20, 60], finished_ms=60)
    prefill, decode, whole = phase_work(
        [run_of(first, request([50, 80], submitted_ms=30, finished_ms=80))], None
    )
    assert (prefill.spans, decode.spans) == ((), ())
    assert (whole.spans, whole.tokens) == (((0, 80),), 4)
    prefill, decode, _ = phase_work(
        [run_of(first, request([50, 80], submitted_ms=10, finished_ms=80))], None
    )
    assert (prefill.spans, decode.spans) == (((0, 50),), ((50, 80),))
