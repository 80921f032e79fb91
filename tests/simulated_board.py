"""A model of an AGX Orin behind the bench's interface: what is fastest on it can be computed.

A step takes its arithmetic or its memory traffic, whichever is longer, and the launches of its
kernels; so chunks may be too small (weights are read, and kernels launched, for few tokens) and too
large (activations that the L2 cache does not hold), pages too small (their tables are walked) and
too large (memory that holds nothing, so that fewer streams run), and what of that matters depends
on the clocks of the power mode. Figures are of the board's size, and nothing was measured for them.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from orin_llm.device.modules import AGX_ORIN_64GB, SMS_PER_TPC, f16_tflops
from orin_llm.tune.bench import Effort
from orin_llm.tune.goal import Goal
from orin_llm.tune.knobs import Candidate, Knob, Space
from orin_llm.tune.measurement import Load, Measurement, Pages, Sample

PARAMETERS = 8e9
WEIGHT_BYTES = 4.6e9
KV_BYTES = 131072  # of a token
LAUNCHES = 450  # of a step
PROMPTS = (512, 4096)
ANSWER = 64
STREAMS = 12  # of the concurrent part, of prompts of 512
KV_TOKENS = 8192  # that the cache holds


@dataclass(frozen=True)
class Mode:
    """Clocks of a power mode."""

    name: str
    sm_count: int
    gpu_mhz: float
    emc_mhz: float
    cpu_mhz: float = 2201.0


MAXN = Mode("MAXN", 16, 1300.5, 3199)
MODE_30W = Mode("MODE_30W", 4 * SMS_PER_TPC, 612, 3199, 1728)
EMC_CAP = Mode("MAXN, EMC capped", 16, 1300.5, 2133)

SPACE = Space(
    (
        Knob("chunk_size", (64, 128, 256, 512, 1024, 2048), 512),
        Knob("page_size", (16, 32, 64, 128, 256), 16),
        Knob("max_batch", (4, 8, 16), 16),
    )
)
LARGE_SPACE = Space(
    (
        *SPACE.knobs,
        Knob("matrix path", ("", "product_tokens=0,cublas_tokens=128"), "", "kernels"),
        Knob("threads", (1, 2, 4, 8), 4),
    )
)


@dataclass(frozen=True)
class Step:
    """Milliseconds of one step, and the parts of it in which the GPU and the memory worked."""

    ms: float
    gpu: float
    emc: float


@dataclass
class SimulatedBoard:
    """The bench of a board.

    Attributes:
        noise: standard deviation of the logarithm of a time.
        outliers: share of repetitions that something else on the machine makes half as long again.
        heat_c_per_j: that the module warms up by a joule, when it is not cooled.
        creep: by which all becomes slower in an hour, as with dust or a warm room.
        readings: whether the sensors of EMC and GPU can be read (tegrastats as root).
    """

    mode: Mode = MAXN
    noise: float = 0.0
    outliers: float = 0.0
    seed: int = 0
    heat_c_per_j: float = 0.0
    throttle_c: float = 99.0
    creep: float = 0.0
    readings: bool = True
    seconds: float = 0.0
    temperature_c: float = 45.0
    settled: int = 0
    measured: list[Candidate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    # The bench's interface

    def measure(self, candidate: Candidate, effort: Effort) -> Measurement:
        load_s = 3.0
        self.seconds += load_s
        self.measured.append(candidate)
        throttled: set[str] = set()
        hottest = self.temperature_c
        samples = []
        for _ in range(effort.repetitions):
            clock = 1.0
            if self.temperature_c >= self.throttle_c:
                clock = 0.6
                throttled.add("gpu")
            sample = self._sample(candidate, clock)
            samples.append(sample)
            self.seconds += sample.elapsed_s
            heat = self.heat_c_per_j * sample.elapsed_s * (sample.power_w or 0.0)
            self.temperature_c = min(105.0, self.temperature_c + heat)
            hottest = max(hottest, self.temperature_c)
        return Measurement(
            samples=tuple(samples),
            prefill=self._load(self.prefill(candidate, max(PROMPTS), 1.0)),
            decode=self._load(self.decode(candidate, max(PROMPTS), 1, 1.0)),
            pages=Pages(waste=self.waste(candidate)),
            hottest_c=hottest if self.readings else None,
            throttled=tuple(sorted(throttled)) if self.readings else None,
            load_s=load_s,
        )

    def settle(self) -> float:
        self.settled += 1
        took = 60.0
        self.seconds += took
        self.temperature_c = 45.0
        return took

    def now_s(self) -> float:
        return self.seconds

    # What is true of it

    def true_cost(self, candidate: Candidate, goal: Goal, space: Space) -> float:
        """Relative to the default's, without noise."""
        quiet = SimulatedBoard(self.mode)
        sample, default = (quiet._sample(c, 1.0) for c in (candidate, space.default))
        log = goal.log_cost(sample, default)
        assert log is not None
        return math.exp(log)

    def optimum(self, goal: Goal, space: Space) -> tuple[Candidate, float]:
        """The best that holds the bounds, and its cost."""
        quiet = SimulatedBoard(self.mode)
        held = [
            (self.true_cost(candidate, goal, space), candidate)
            for candidate in space.candidates()
            if not goal.violations(quiet.measure(candidate, Effort()))
        ]
        cost, best = min(held, key=lambda pair: pair[0])
        return best, cost

    def _sample(self, candidate: Candidate, clock: float) -> Sample:
        ttft = {n: self.prefill(candidate, n, clock).ms * self._chance() for n in PROMPTS}
        tpot = self.decode(candidate, max(PROMPTS), 1, clock).ms * self._chance()
        rate, stream_tpot, busy_s = self._concurrent(candidate, clock)
        chance = self._chance()
        seconds = (sum(ttft.values()) + ANSWER * tpot) / 1e3
        power = self._power_w(candidate, clock)
        tokens = sum(PROMPTS) + ANSWER
        return Sample(
            ttft_ms=ttft,
            tpot_ms=tpot,
            tokens_per_s=rate / chance,
            concurrent_tpot_ms=stream_tpot * chance,
            joules_per_token=power * seconds / tokens,
            power_w=power,
            elapsed_s=seconds + busy_s * chance,
        )

    def prefill(self, candidate: Candidate, prompt: int, clock: float) -> Step:
        """All of one prompt."""
        chunk = int(candidate["chunk_size"])
        steps = [self._chunk(candidate, start, min(chunk, prompt - start), clock)
                 for start in range(0, prompt, chunk)]  # fmt: skip
        total = sum(step.ms for step in steps)
        return Step(
            total,
            sum(step.gpu * step.ms for step in steps) / total,
            sum(step.emc * step.ms for step in steps) / total,
        )

    def decode(self, candidate: Candidate, depth: int, streams: int, clock: float) -> Step:
        """One step of `streams` sequences."""
        page = int(candidate["page_size"])
        kv = streams * depth * KV_BYTES * _burst(page)
        walk_ms = 3e-4 * (streams * depth / page) * self._slow_host(candidate)
        flops = 2 * PARAMETERS * streams
        return self._step(WEIGHT_BYTES + kv, flops, 0.25, clock, candidate, walk_ms)

    def waste(self, candidate: Candidate) -> float:
        """Of the pages of a sequence of the concurrent part, half of the last one."""
        page = int(candidate["page_size"])
        return page / 2 / (PROMPTS[0] + ANSWER + page / 2)

    def _chunk(self, candidate: Candidate, start: int, tokens: int, clock: float) -> Step:
        page = int(candidate["page_size"])
        uses_cublas = "cublas" in str(candidate.get("matrix path", ""))
        # Activations of a token, and more of them when the L2 cache no longer holds a chunk's.
        traffic = tokens * 5e6 * (1 + tokens / 12)
        weights = WEIGHT_BYTES * (5.5 if uses_cublas else 1.0)  # decoded to f16, and read again
        kv = (start + tokens) * KV_BYTES * _burst(page)
        writes = tokens * KV_BYTES * (40.0 if page >= 256 else 1.0)
        flops = 2 * PARAMETERS * tokens
        efficiency = (0.6 if uses_cublas else 0.5) * tokens / (tokens + 40)
        walk_ms = 3e-4 * ((start + tokens) / page) * self._slow_host(candidate)
        return self._step(
            weights + traffic + kv + writes, flops, efficiency, clock, candidate, walk_ms
        )

    def _step(
        self,
        n_bytes: float,
        flops: float,
        efficiency: float,
        clock: float,
        candidate: Candidate,
        walk_ms: float,
    ) -> Step:
        tflops = f16_tflops(self.mode.sm_count, self.mode.gpu_mhz * clock)
        compute_ms = flops / (tflops * 1e12 * efficiency) * 1e3 + walk_ms
        memory_ms = n_bytes / (0.85 * AGX_ORIN_64GB.bandwidth_gb_s(self.mode.emc_mhz) * 1e9) * 1e3
        # The two overlap, but never wholly.
        busy_ms = max(compute_ms, memory_ms) + 0.15 * min(compute_ms, memory_ms)
        host_ms = LAUNCHES * 6e-3 * self._slow_host(candidate)
        ms = busy_ms + host_ms
        return Step(ms, min(1.0, compute_ms / ms + 0.05), memory_ms / ms)

    def _concurrent(self, candidate: Candidate, clock: float) -> tuple[float, float, float]:
        """Tokens a second, the TPOT of a stream, and the seconds of all of it."""
        page = int(candidate["page_size"])
        length = math.ceil((PROMPTS[0] + ANSWER) / page) * page
        lanes = min(int(candidate["max_batch"]), STREAMS, KV_TOKENS // length)
        waves = math.ceil(STREAMS / lanes)
        prompt = self.prefill(candidate, PROMPTS[0], clock).ms
        step = self.decode(candidate, PROMPTS[0], lanes, clock).ms
        seconds = (STREAMS * prompt + waves * ANSWER * step) / 1e3
        return STREAMS * (PROMPTS[0] + ANSWER) / seconds, step, seconds

    def _slow_host(self, candidate: Candidate) -> float:
        threads = int(candidate.get("threads", 4))
        return 2201.0 / self.mode.cpu_mhz * {1: 1.25, 2: 1.05, 4: 1.0, 8: 1.1}[threads]

    def _power_w(self, candidate: Candidate, clock: float) -> float:
        step = self.prefill(candidate, max(PROMPTS), clock)
        of_gpu = self.mode.sm_count / 16 * (self.mode.gpu_mhz * clock / 1300.5) ** 2.5
        return 9 + 28 * of_gpu * step.gpu + 6 * step.emc * self.mode.emc_mhz / 3199

    def _load(self, step: Step) -> Load:
        if not self.readings:
            return Load()
        bandwidth = step.emc * 0.85 * AGX_ORIN_64GB.bandwidth_gb_s(self.mode.emc_mhz)
        throttle = 0.6 if self.temperature_c >= self.throttle_c else 1.0
        return Load(
            gpu_percent=100 * step.gpu,
            gpu_mhz=self.mode.gpu_mhz * throttle,
            emc_percent=100 * step.emc,
            emc_mhz=self.mode.emc_mhz,
            bandwidth_gb_s=bandwidth,
        )

    def _chance(self) -> float:
        slower = 1 + self.creep * self.seconds / 3600
        if not self.noise:
            return slower
        outlier = 1.5 if self._random.random() < self.outliers else 1.0
        return slower * outlier * math.exp(self._random.gauss(0.0, self.noise))


def _burst(page: int) -> float:
    """Bytes that are moved for a byte of a page: short runs waste bursts, long ones read the empty
    end of the last page."""
    return 1 + 14 / page + page / 700


def spread_of(board: SimulatedBoard, goal: Goal, space: Space) -> list[tuple[float, Candidate]]:
    """Every candidate by its true cost."""
    costs = [(board.true_cost(c, goal, space), c) for c in space.candidates()]
    return sorted(costs, key=lambda pair: pair[0])
