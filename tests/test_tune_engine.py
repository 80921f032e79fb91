"""The bench of real engines, and the knobs of real machines."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tune_support import search

from orin_llm.bench.watch import Watch
from orin_llm.device.modules import AGX_ORIN_64GB
from orin_llm.device.reading import Reading
from orin_llm.device.sampler import Sampler
from orin_llm.device.stamp import Stamp, read_stamp
from orin_llm.engine import Engine, EngineConfig
from orin_llm.errors import ModelFileError, UsageError
from orin_llm.tune.bench import Effort
from orin_llm.tune.engine_bench import EngineBench
from orin_llm.tune.goal import Constraints, Goal
from orin_llm.tune.knobs import Candidate, Knob, Space
from orin_llm.tune.kv_quality import kv_qualities
from orin_llm.tune.spaces import default_space
from orin_llm.tune.work import Work

WORK = Work((16, 40), 6, 3, 8, 4)
SPACE = Space((Knob("chunk_size", (8, 16, 64), 64), Knob("page_size", (8, 16), 16)))
BASE = EngineConfig(threads=1, max_batch=4)
BALANCED = Goal("balanced")


class Loads:
    """Makes engines, and remembers with which settings."""

    def __init__(self) -> None:
        self.made: list[Engine] = []

    def __call__(self, path: Path, config: EngineConfig) -> Engine:
        self.made.append(Engine(path, config))
        return self.made[-1]

    @property
    def open(self) -> int:
        return sum(not engine.closed for engine in self.made)


class Steady:
    """Sensors of a board: 20 W, and a memory that is busy."""

    def __init__(self, throttled: tuple[str, ...] = ()) -> None:
        self.degrees = 60.0
        self.events = 0
        self.throttled = throttled

    def read(self) -> Reading:
        return Reading(
            at_ms=time.monotonic() * 1e3,
            gpu_percent=80.0,
            gpu_mhz=1300.0,
            emc_percent=90.0,
            emc_mhz=3199.0,
            bandwidth_gb_s=184.0,
            power_w=20.0,
            temperatures_c={"tj": self.degrees},
            throttled=self.throttled,
            over_current_events=self.events,
        )


def watched(sensors: Steady) -> Watch:
    stamp = Stamp(**{**vars(read_stamp()), "module": AGX_ORIN_64GB.part})
    return Watch(stamp, Sampler(sensors, 10))


@contextmanager
def bench_beside(sensors: Steady, model: Path, goal: str) -> Iterator[EngineBench]:
    """A bench that reads these sensors."""
    watch = watched(sensors)
    assert watch.sampler is not None
    with (
        watch.sampler,
        EngineBench(model, BASE, SPACE, Goal(goal), WORK, watch=watch) as bench,
    ):
        yield bench


@pytest.fixture
def loads() -> Iterator[Loads]:
    made = Loads()
    yield made
    for engine in made.made:
        engine.close()


def test_a_measurement_has_what_the_goal_asks_for(tiny_model: Path, loads: Loads) -> None:
    with EngineBench(tiny_model, BASE, SPACE, BALANCED, WORK, loads) as bench:
        found = bench.measure(SPACE.default, Effort(2))
    assert len(found.samples) == 2 and found.load_s > 0
    for sample in found.samples:
        assert sorted(sample.ttft_ms) == [16, 40] and min(sample.ttft_ms.values()) > 0
        assert sample.tpot_ms and sample.tokens_per_s and sample.concurrent_tpot_ms
        assert sample.joules_per_token is None and sample.power_w is None
    assert found.pages.decode_compute_ms and found.pages.prefill_compute_ms
    assert found.pages.waste is not None and 0 <= found.pages.waste < 1
    assert found.prefill.gpu_percent is None and found.throttled is None
    assert loads.open == 0


@pytest.mark.parametrize(
    ("goal", "lengths", "tpot", "together"),
    [
        (Goal("ttft"), [16, 40], False, False),
        (Goal("ttft", Constraints(max_tpot_ms=60)), [16, 40], True, False),
        (Goal("tpot"), [40], True, False),
        (Goal("throughput"), [16, 40], False, True),
    ],
)
def test_what_the_goal_does_not_ask_for_is_not_measured(
    tiny_model: Path, goal: Goal, lengths: list[int], tpot: bool, together: bool
) -> None:
    with EngineBench(tiny_model, BASE, SPACE, goal, WORK) as bench:
        (sample,) = bench.measure(SPACE.default, Effort()).samples
    assert sorted(sample.ttft_ms) == lengths
    assert (sample.tpot_ms is not None) == tpot
    assert (sample.tokens_per_s is not None) == together


def test_an_engine_has_the_candidates_settings_and_room_for_whole_chunks(
    tiny_model: Path, loads: Loads
) -> None:
    candidate = Candidate.of({"chunk_size": 16, "page_size": 8})
    with EngineBench(tiny_model, BASE, SPACE, BALANCED, WORK, loads) as bench:
        bench.measure(candidate, Effort())
        bench.measure(SPACE.default, Effort())
    configs = [(e.config.chunk_size, e.config.page_size, e.config.threads) for e in loads.made]
    assert configs == [(16, 8, 1), (64, 16, 1)]
    assert [e.n_ctx for e in loads.made] == [46, 46]
    assert [e.kv_pages * e.config.page_size for e in loads.made] == [3 * 256, 3 * 256]


def test_the_defaults_engine_and_the_last_two_are_kept(tiny_model: Path, loads: Loads) -> None:
    others = [c for c in SPACE.candidates() if c != SPACE.default][:3]
    with EngineBench(tiny_model, BASE, SPACE, Goal("ttft"), WORK, loads) as bench:
        for candidate in (SPACE.default, *others):
            bench.measure(candidate, Effort())
            assert loads.open <= 3
        assert len(loads.made) == 4 and not loads.made[0].closed and loads.made[1].closed
        bench.measure(SPACE.default, Effort())
        bench.measure(others[-1], Effort())
        assert len(loads.made) == 4
    assert loads.open == 0


def test_with_sensors_energy_is_power_times_time_over_all_tokens(tiny_model: Path) -> None:
    with bench_beside(Steady(), tiny_model, "energy") as bench:
        found = bench.measure(SPACE.default, Effort())
    (sample,) = found.samples
    assert sample.power_w == pytest.approx(20.0)
    assert sample.joules_per_token is not None and sample.tpot_ms is not None
    tokens = 16 + 1 + 40 + 6
    computed_s = (sum(sample.ttft_ms.values()) + 5 * sample.tpot_ms) / 1e3
    assert sample.joules_per_token == pytest.approx(20.0 * computed_s / tokens, rel=0.05)
    assert found.decode.emc_percent == pytest.approx(90) and found.prefill.gpu_mhz == 1300
    assert found.hottest_c == 60 and found.throttled == ()


def test_a_throttled_machine_ends_a_measurement_early(tiny_model: Path) -> None:
    with bench_beside(Steady(("gpu",)), tiny_model, "ttft") as bench:
        found = bench.measure(SPACE.default, Effort(5))
    assert len(found.samples) == 1 and found.throttled == ("gpu",)


def test_events_of_the_current_limit_count_as_throttling(tiny_model: Path) -> None:
    class Rising(Steady):
        def read(self) -> Reading:
            self.events += 1
            return super().read()

    with bench_beside(Rising(), tiny_model, "ttft") as bench:
        found = bench.measure(SPACE.default, Effort(5))
    assert len(found.samples) == 1 and found.throttled == ("over-current",)


def test_settling_waits_until_it_is_as_cool_as_at_the_start(tiny_model: Path) -> None:
    sensors = Steady()
    with bench_beside(sensors, tiny_model, "ttft") as bench:
        assert bench.settle() < 1
        sensors.degrees = 80.0
        threading.Timer(0.5, lambda: setattr(sensors, "degrees", 61.0)).start()
        assert bench.settle() >= 0.5


def test_a_candidate_that_the_model_cannot_have_is_a_failed_trial(tiny_model: Path) -> None:
    space = Space((Knob("kv_type", ("f16", "q8_0"), "f16"), SPACE.knobs[0]))
    with EngineBench(tiny_model, BASE, space, Goal("ttft"), WORK) as bench:
        _, trials = search(bench, space, Goal("ttft"), repetitions=2)
    failed = [t for t in trials if t.state == "failed"]
    assert len(failed) == 1 and "q8_0" in failed[0].note
    assert all(t.candidate["kv_type"] == "f16" for t in trials if t.state == "measured")


def test_a_search_on_engines_ends_in_one_of_its_candidates(tiny_model: Path) -> None:
    with EngineBench(tiny_model, BASE, SPACE, BALANCED, WORK) as bench:
        tuner, _ = search(bench, SPACE, BALANCED, repetitions=2)
    outcome = tuner.outcome()
    assert outcome.best is not None and outcome.best.candidate in list(SPACE.candidates())
    assert outcome.decision in ("better", "noise", "default")
    assert EngineConfig(**outcome.settings).chunk_size == outcome.settings["chunk_size"]


def test_ctrl_c_while_an_engine_warms_up_leaves_none_open(tiny_model: Path, loads: Loads) -> None:
    def interrupted(path: Path, config: EngineConfig) -> Engine:
        engine = loads(path, config)
        if len(loads.made) == 2:
            raise KeyboardInterrupt
        return engine

    with (
        pytest.raises(KeyboardInterrupt),
        EngineBench(tiny_model, BASE, SPACE, Goal("ttft"), WORK, interrupted) as bench,
    ):
        for candidate in SPACE.candidates():
            bench.measure(candidate, Effort())
    assert loads.made[0].closed


def test_requests_longer_than_the_models_context_are_refused_at_once(tiny_model: Path) -> None:
    with pytest.raises(UsageError, match="measure shorter ones"):
        EngineBench(tiny_model, BASE, SPACE, Goal("ttft"), Work((100_000,)))


@pytest.mark.parametrize("bad", [{"prompts": ()}, {"prompts": (64, 16)}, {"answer": 1}])
def test_work_that_measures_nothing_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Work(**bad)  # type: ignore[arg-type]


def test_the_knobs_of_a_cpu_are_threads_and_cores() -> None:
    work = Work((64, 256), 8, 8, 32, 8)
    base = EngineConfig(threads=8)
    space = default_space(base, Goal("ttft"), work, on_gpu=False, allowed_cpus=frozenset(range(12)))
    values = {knob.name: knob.values for knob in space.knobs}
    assert values["chunk_size"] == (64, 128, 256, 512)  # one holds the prompt; one is the default
    assert values["cpus"] == ("", "0-3", "0-7") and 8 in values["threads"]
    assert "max_batch" not in values and "kv_type" not in values
    crowded = space.default.having("cpus", "0-3")
    assert not space.allowed(crowded) and space.allowed(crowded.having("threads", 4))
    for candidate in space.candidates():
        space.config(candidate, base)


def test_the_knobs_of_a_gpu_are_its_kernels() -> None:
    space = default_space(
        EngineConfig(), Goal("balanced"), Work(), on_gpu=True, kv_types=("q8_0",),
        allowed_cpus=frozenset(range(12)),
    )  # fmt: skip
    names = [knob.name for knob in space.knobs]
    assert names == [
        "chunk_size", "page_size", "max_batch", "kv_type", "matrix path", "vector kernel",
    ]  # fmt: skip
    alone = default_space(EngineConfig(), Goal("tpot"), Work(), on_gpu=True)
    assert [knob.name for knob in alone.knobs] == ["page_size", "vector kernel"]
    prompts = default_space(EngineConfig(), Goal("ttft"), Work(), on_gpu=True)
    assert [knob.name for knob in prompts.knobs] == ["chunk_size", "page_size", "matrix path"]
    assert space.default["kv_type"] == "f16" and space.default["matrix path"] == ""
    for value in space.knob("matrix path").values:
        space.config(space.default.having("matrix path", value), EngineConfig())


def test_a_kv_type_is_allowed_by_the_perplexity_that_it_costs(smollm2: Path) -> None:
    base = EngineConfig(threads=1)
    loose, strict = (
        kv_qualities(smollm2, base, bound, ("q4_0",), windows=1, window_tokens=32)
        for bound in (10.0, 1.0)
    )
    assert loose[0].is_allowed and not strict[0].is_allowed
    assert loose[0].ratio == strict[0].ratio and loose[0].ratio is not None
    assert 0.5 < loose[0].ratio < 2 and strict[0].note == "above the bound of 1"
    with pytest.raises(ModelFileError):
        kv_qualities(smollm2.parent / "none.gguf", base, 1.1, ("q8_0",))
