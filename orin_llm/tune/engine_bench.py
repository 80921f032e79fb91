"""Measures candidates on real engines, with the sensors of this machine beside them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean

from orin_llm.bench.campaign import MakeEngine
from orin_llm.bench.cool_down import CoolDown
from orin_llm.bench.device_use import DeviceUse, PhaseUse, device_use
from orin_llm.bench.metrics import figures, kv_figures
from orin_llm.bench.records import Run
from orin_llm.bench.runner import EngineRunner
from orin_llm.bench.streams import Streams
from orin_llm.bench.traffic import Traffic
from orin_llm.bench.watch import Watch
from orin_llm.closeable import Closeable
from orin_llm.engine import Engine, EngineConfig
from orin_llm.engine.loaded_model import read_model_header
from orin_llm.errors import OrinError, UsageError
from orin_llm.gguf.footprint import weight_bytes
from orin_llm.host.memory import read_memory
from orin_llm.models.describe import context
from orin_llm.tune.bench import Effort
from orin_llm.tune.goal import Goal
from orin_llm.tune.knobs import Candidate, Space
from orin_llm.tune.measurement import Load, Measurement, Pages, Sample
from orin_llm.tune.work import Work

SETTLE_LIMIT_S = 300.0
_MOST_ENGINES = 3  # the default, and the two of the last comparison
_MAX_GAP_MS = 1000.0
_SEED = 0


class EngineBench(Closeable):
    """A bench of engines, to be used with `with`, or closed.

    It keeps the engine of the default, and as many others as memory allows, for they take turns.
    """

    def __init__(
        self,
        model: Path,
        base: EngineConfig,
        space: Space,
        goal: Goal,
        work: Work,
        load: MakeEngine = Engine,
        watch: Watch | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """
        Args:
            base: what is not a knob.
            load: makes an engine.
            watch: the machine's sensors; None reads none.
            say: told when it waits for a cooler machine.

        Raises:
            ModelFileError: the file cannot be read.
            UsageError: a request is longer than the model's context.
        """
        self._model, self._base, self._space = model, base, space
        self._goal, self._work, self._load = goal, work, load
        self._sampler = watch.sampler if watch else None
        self._module = watch.module if watch else None
        self._header = read_model_header(model)
        if work.n_ctx > context(self._header):
            raise UsageError(
                f"a prompt with its answer has {work.n_ctx} tokens, more than the "
                f"{context(self._header)} of this model's context: measure shorter ones"
            )
        self._engines: dict[Candidate, EngineRunner] = {}  # the last used one last
        self._cool_down = CoolDown(self._hottest_c, SETTLE_LIMIT_S, say)
        self._cool_down()  # notes how hot it is

    def measure(self, candidate: Candidate, effort: Effort) -> Measurement:
        """See Bench. Ends before all repetitions are done where the machine is throttled."""
        began = time.monotonic()
        runner = self._runner(candidate)
        load_s = time.monotonic() - began
        samples: list[Sample] = []
        runs: list[Run] = []
        use: DeviceUse | None = None
        for _ in range(effort.repetitions):
            sample, its_runs = self._repetition(runner)
            samples.append(sample)
            runs += its_runs
            use = self._device_use(runner, runs)
            if _throttled(use):
                break
        return Measurement(
            samples=tuple(samples),
            prefill=_load(use.prefill if use else None),
            decode=_load(use.decode if use else None),
            pages=_pages(runs),
            hottest_c=use.hottest_c if use else None,
            throttled=_throttled(use),
            load_s=load_s,
        )

    def settle(self) -> float:
        """Wait until the machine is as cool as when the bench was made."""
        began = time.monotonic()
        self._cool_down()
        return time.monotonic() - began

    def now_s(self) -> float:
        """Of the monotonic clock."""
        return time.monotonic()

    def close(self) -> None:
        """Close all engines."""
        while self._engines:
            self._close(next(iter(self._engines)))

    # One repetition

    def _repetition(self, runner: EngineRunner) -> tuple[Sample, list[Run]]:
        began = time.monotonic()
        alone = [self._run(runner, part) for part in self._work.alone(self._goal)]
        part = self._work.together(self._goal)
        together = self._run(runner, part) if part else None
        runs = [*alone, *([together] if together else [])]
        prompts = [run.requests[0].prompt_tokens for run in alone]
        found = [figures(run) for run in alone]
        rates = figures(together) if together else {}
        joules, power_w = self._energy(runner, runs)
        return (
            Sample(
                ttft_ms={n: f["ttft_ms"] for n, f in zip(prompts, found, strict=True)},
                tpot_ms=found[-1].get("tpot_ms"),
                tokens_per_s=rates.get("total_tokens_per_s"),
                concurrent_tpot_ms=rates.get("tpot_ms"),
                joules_per_token=joules,
                power_w=power_w,
                elapsed_s=time.monotonic() - began,
            ),
            runs,
        )

    def _run(self, runner: EngineRunner, part: Streams) -> Run:
        run = runner.run(part.build(runner.engine.n_vocab, _SEED))
        run.require_all_completed()
        return run

    def _energy(self, runner: EngineRunner, runs: list[Run]) -> tuple[float | None, float | None]:
        """Joules of a token, of prompts and answers, and watts; None where they were not read."""
        use = self._device_use(runner, runs)
        if use is None:
            return None, None
        of_answers = use.whole.joules_per_token
        power_w = use.whole.activity.power_w
        if of_answers is None:
            return None, power_w
        tokens = sum(r.prompt_tokens + r.output_tokens for run in runs for r in run.requests)
        return of_answers * use.whole.tokens / tokens, power_w

    def _device_use(self, runner: EngineRunner, runs: list[Run]) -> DeviceUse | None:
        traffic = Traffic(self._header, runner.engine.config.kv_type)
        gap_ms = self._sampler.max_gap_ms if self._sampler else _MAX_GAP_MS
        return device_use(runs, traffic, self._module, gap_ms)

    def _hottest_c(self) -> float | None:
        return self._sampler.sample().hottest_c if self._sampler else None

    # Engines

    def _runner(self, candidate: Candidate) -> EngineRunner:
        runner = self._engines.pop(candidate, None)
        if runner is None:
            self._make_room(self._kept - 1)
            runner = self._warm(self._made(candidate))
        self._engines[candidate] = runner
        return runner

    def _made(self, candidate: Candidate) -> Engine:
        config = self._config(candidate)
        try:
            return self._load(self._model, config)
        except OrinError:
            if not self._engines:
                raise
            self.close()  # there may be room without the others
            return self._load(self._model, config)

    def _config(self, candidate: Candidate) -> EngineConfig:
        config = self._space.config(candidate, self._base)
        # An engine cuts chunks to its context: room for those that hold a whole prompt.
        whole = self._work.longest + config.max_batch
        n_ctx = min(context(self._header), max(self._work.n_ctx, whole))
        n_ctx = config.n_ctx or n_ctx
        # The same for all, whatever memory the engines beside them leave.
        kv_memory = config.kv_memory or max(n_ctx, self._work.kv_tokens)
        return replace(config, n_ctx=n_ctx, kv_memory=kv_memory, publish=False)

    def _warm(self, engine: Engine) -> EngineRunner:
        runner = EngineRunner(engine, self._sampler)
        try:
            for part in self._work.warm_up(self._goal):
                self._run(runner, part)
        except BaseException:
            engine.close()
            raise
        return runner

    @property
    def _kept(self) -> int:
        """Engines that may be there at the same time: half of the memory for their weights."""
        weights = max(1, weight_bytes(self._header))
        room = (read_memory().available + len(self._engines) * weights) // 2
        return max(1, min(_MOST_ENGINES, room // weights))

    def _make_room(self, kept: int) -> None:
        """Close those that were not used for longest, the default last."""
        default = self._space.default
        for candidate in [*(c for c in self._engines if c != default), default]:
            if len(self._engines) > kept and candidate in self._engines:
                self._close(candidate)

    def _close(self, candidate: Candidate) -> None:
        self._engines.pop(candidate).engine.close()


def _load(use: PhaseUse | None) -> Load:
    if use is None:
        return Load()
    did = use.activity
    return Load(
        gpu_percent=did.gpu_percent,
        gpu_mhz=did.gpu_mhz,
        emc_percent=did.emc_percent,
        emc_mhz=did.emc_mhz,
        bandwidth_gb_s=did.bandwidth_gb_s,
        power_w=did.power_w,
    )


def _throttled(use: DeviceUse | None) -> tuple[str, ...] | None:
    """What slowed the machine down; the regulators' current limit lowers clocks, too."""
    if use is not None and use.over_current_events:
        return (*(use.throttled or ()), "over-current")
    return use.throttled if use else None


def _pages(runs: list[Run]) -> Pages:
    """Of the longest prompt's steps; of the fullest step of any run, what its pages wasted."""
    alone = [run for run in runs if len(run.requests) == 1]
    longest = max((run.requests[0].prompt_tokens for run in alone), default=0)
    steps = [s for run in alone if run.requests[0].prompt_tokens == longest for s in run.steps]
    decode = [s.compute_ms for s in steps if not s.n_prompt_tokens]
    prefill = [s for s in steps if s.n_prompt_tokens]
    tokens = sum(s.n_prompt_tokens for s in prefill)
    wastes = [found["fragmentation"] for run in runs
              if "fragmentation" in (found := kv_figures(run))]  # fmt: skip
    return Pages(
        decode_compute_ms=mean(decode) if decode else None,
        prefill_compute_ms=sum(s.compute_ms for s in prefill) / tokens if tokens else None,
        waste=max(wastes, default=None),
    )
