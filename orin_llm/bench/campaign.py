"""A cross product of engines and workloads, contenders taking turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orin_llm.bench.cool_down import cool_down, require_limit
from orin_llm.bench.environment import environment
from orin_llm.bench.records import Run
from orin_llm.bench.result import Conditions, Report, Result
from orin_llm.bench.room import LEAST_CTX, require_full_chunks, require_room, sequences
from orin_llm.bench.runner import EngineRunner, hooks_text
from orin_llm.bench.stock import StockPeer, require_stock
from orin_llm.bench.streams import Streams
from orin_llm.bench.traffic import Traffic
from orin_llm.bench.turns import Contender, CutShort, Say, alternate, require_rounds
from orin_llm.bench.watch import Watch
from orin_llm.bench.workload import Scenario, Workload
from orin_llm.device.budget import memory_budget
from orin_llm.device.build import build_info
from orin_llm.device.stamp import read_stamp
from orin_llm.engine import Engine, EngineConfig, Hooks
from orin_llm.engine.config import MAX_BATCH
from orin_llm.engine.loaded_model import read_model_header
from orin_llm.errors import UsageError
from orin_llm.host.cpu_set import parse_cores
from orin_llm.models.describe import context


@dataclass(frozen=True)
class Campaign:
    """What is measured.

    Attributes:
        model: a GGUF file.
        configs: engines, without context size and batch: the scenarios say them.
        scenarios: each is run on each engine.
        ab: the hooks of a second engine that takes turns with the first; None for no second one.
        stock: whether stock llama.cpp takes turns, too.
        repetitions: that count, after `warmup` that do not.
        seed: of the random prompts and lengths.
        cool_down_s: between two runs until the machine is as cool as before them, at most; 0: none.
    """

    model: Path
    configs: tuple[EngineConfig, ...]
    scenarios: tuple[Scenario, ...]
    ab: Hooks | None = None
    stock: bool = False
    repetitions: int = 5
    warmup: int = 1
    seed: int = 0
    cool_down_s: float = 0.0

    def __post_init__(self) -> None:
        require_rounds(self.repetitions, self.warmup, "warm-up runs")
        require_limit(self.cool_down_s)
        for scenario in self.scenarios:
            if scenario.n_seq > MAX_BATCH:
                raise UsageError(
                    f"{scenario.label} has {scenario.n_seq} requests at the same time: an engine "
                    f"computes at most {MAX_BATCH} (-np)"
                )
        if self.ab is not None and any(config.hooks == self.ab for config in self.configs):
            raise UsageError(
                f"--ab {hooks_text(self.ab)}: these are the hooks of the first engine, too: choose "
                "others (--ab, --hooks)"
            )
        if self.stock and not all(isinstance(s, Streams) for s in self.scenarios):
            raise UsageError(
                "--peer stock can only run requests that come at once: single, or concurrent "
                "without --trace"
            )


MakeEngine = Callable[[Path, EngineConfig], Engine]


def measure(
    campaign: Campaign, load: MakeEngine, say: Say, watch: Watch | None = None
) -> Iterator[Report[Result]]:
    """Run everything; a report of each workload on each engine as soon as it ends.

    Args:
        load: makes an engine.
        say: told before each run what it is, in one line.
        watch: the machine, whose sensors are read; None: it is only stamped.

    Raises:
        DeviceUnavailable: stock llama.cpp is wanted and not installed, or a machine is to cool
            down that tells no temperature.
        UsageError: a request has no room, or a long prompt fills no step.
        OrinError: an engine cannot be made, a peer failed, or a workload made no sense.
        KeyboardInterrupt: Ctrl-C came; the repetitions until then were reported.
    """
    if campaign.stock:
        require_stock()
    watch = watch or Watch(read_stamp())
    cool = cool_down(campaign.cool_down_s, watch, say)
    sized = sized_configs(campaign)
    budget = memory_budget(build_info().cuda)  # before an engine takes of it
    where: dict[str, Any] = {}
    for config in sized:
        with ExitStack() as engines:

            def start(config: EngineConfig, engines: ExitStack = engines) -> EngineRunner:
                engine = engines.enter_context(load(campaign.model, config))
                return EngineRunner(engine, watch.sampler)

            runners = [start(config)]
            require_full_chunks(campaign.scenarios, runners[0].engine.chunk_size)
            if campaign.ab is not None:
                runners.append(start(_alike(runners[0], campaign.ab)))
            first = runners[0].engine
            device = first.backend["device"]
            where = where or environment(
                first.model_path, first.header, device, watch.stamp, watch.at_start
            )
            for scenario in campaign.scenarios:
                conditions = Conditions(
                    scenario,
                    first.chunk_size,
                    campaign.warmup,
                    campaign.seed,
                    memory_allows=sequences(first.header, budget, config, scenario),
                    traffic=Traffic(first.header, first.config.kv_type),
                    module=watch.module,
                    max_gap_ms=watch.max_gap_ms,
                )
                results, cut_short = _turns(campaign, scenario, conditions, runners, say, cool)
                yield Report(where, tuple(results), cut_short=cut_short)
                if cut_short:
                    raise KeyboardInterrupt


def sized_configs(campaign: Campaign) -> list[EngineConfig]:
    """The configurations with room for every scenario; UsageError where that cannot be."""
    header = read_model_header(campaign.model)
    found = []
    for config in campaign.configs:
        require_room(header, config, campaign.scenarios)
        sized = _sized(campaign, config, context(header))
        # What the engine computes in a step at least; it tells the rest when it is made.
        chunk = min(sized.chunk_size, sized.n_ctx - sized.max_batch)
        require_full_chunks(campaign.scenarios, chunk)
        found.append(sized)
    return found


def _sized(campaign: Campaign, config: EngineConfig, n_ctx_train: int) -> EngineConfig:
    """The configuration with room for every scenario.

    The context is at least a chunk, as far as the model goes and the KV memory is not limited: an
    engine cuts chunks to its context.
    """
    n_seq = max(scenario.n_seq for scenario in campaign.scenarios)
    n_ctx = max(LEAST_CTX, *(scenario.n_ctx for scenario in campaign.scenarios))
    if config.kv_memory is None:
        n_ctx = max(n_ctx, min(config.chunk_size + n_seq, n_ctx_train))
    return replace(config, n_ctx=n_ctx, max_batch=n_seq)


def _alike(first: EngineRunner, hooks: Hooks) -> EngineConfig:
    """The engine that takes turns with the first: of the same memory and chunks.

    The first one's follow from what was free when it was made, and from its hooks.
    """
    chunk_size = first.engine.chunk_size
    config = first.engine.config
    return replace(config, hooks=hooks, kv_memory=first.kv_memory, chunk_size=chunk_size)


def _turns(
    campaign: Campaign,
    scenario: Scenario,
    conditions: Conditions,
    runners: Sequence[EngineRunner],
    say: Say,
    cool: Callable[[], None],
) -> tuple[list[Result], bool]:
    """The results, and whether Ctrl-C has left repetitions out."""
    engine = runners[0].engine
    cut_short = False
    with ExitStack() as peers:
        contenders: list[Contender[Workload, Run]] = [*runners]
        if campaign.stock:
            peer = StockPeer(
                campaign.model,
                n_ctx=scenario.n_ctx,
                n_seq=scenario.n_seq,
                chunk_size=engine.chunk_size,
                threads=engine.threads,
                kv_type=engine.config.kv_type,
                flash_attention=engine.config.flash_attention,
                cpus=sorted(parse_cores(engine.config.cpus)),
                sampler=runners[0].sampler,
            )
            contenders.append(peers.enter_context(peer))
        workload = scenario.build(engine.n_vocab, campaign.seed)
        try:
            runs = alternate(
                contenders,
                workload,
                campaign.warmup,
                campaign.repetitions,
                lambda text: say(f"{scenario.label}, {text}"),
                cool,
            )
        except CutShort as cut:
            runs, cut_short = cut.records, True
    results = [
        conditions.result(contender.settings, its_runs, runs[0])
        for contender, its_runs in zip(contenders, runs, strict=True)
    ]
    return results, cut_short
