"""Starts from nothing: our engine, stock llama.cpp and the disk taking turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from orin_llm.bench.campaign import Campaign, sized_configs
from orin_llm.bench.cool_down import cool_down
from orin_llm.bench.environment import environment
from orin_llm.bench.result import Report
from orin_llm.bench.start_result import StartConditions, StartResult
from orin_llm.bench.starts import Cache, DiskRead, Figures, OwnStart, Start, StockStart
from orin_llm.bench.turns import Contender, Say, alternate
from orin_llm.bench.watch import Watch
from orin_llm.bench.workload import Scenario
from orin_llm.device.stamp import read_stamp
from orin_llm.engine import EngineConfig
from orin_llm.engine.loaded_model import read_model_header
from orin_llm.engine.native_params import thread_count
from orin_llm.gguf.footprint import logits_bytes, weight_bytes
from orin_llm.gguf.header import Header
from orin_llm.gguf.split import files_there


def measure_starts(
    campaign: Campaign, caches: Sequence[Cache], say: Say, watch: Watch | None = None
) -> Iterator[Report[StartResult]]:
    """Start everything as often as is wanted; a report of each workload as soon as it ends.

    Args:
        campaign: its scenarios are all OneToken.
        caches: states of the page cache to start in.
        say: told before each run what it is, in one line.
        watch: the machine; None: it is only stamped.

    Raises:
        DeviceUnavailable: stock llama.cpp is wanted and not installed, or a machine is to cool
            down that tells no temperature.
        UsageError: the prompt has no room.
        OrinError: a start failed, or the page cache cannot be brought into its state.
    """
    watch = watch or Watch(read_stamp())
    cool = cool_down(campaign.cool_down_s, watch, say)
    header = read_model_header(campaign.model)
    for config in sized_configs(campaign):
        for scenario in campaign.scenarios:
            for cache in caches:
                yield _turns(campaign, config, header, scenario, cache, say, watch, cool)


def _turns(
    campaign: Campaign,
    config: EngineConfig,
    header: Header,
    scenario: Scenario,
    cache: Cache,
    say: Say,
    watch: Watch,
    cool: Callable[[], None],
) -> Report[StartResult]:
    (wave,) = scenario.build(logits_bytes(header) // 4, campaign.seed).waves
    start = Start(
        files_there(campaign.model), weight_bytes(header), cache, wave.submissions[0].prompt
    )
    conditions = StartConditions(scenario, cache, campaign.warmup, campaign.seed)
    threads = thread_count(config)
    ours = OwnStart(campaign.model, config, threads)
    contenders: list[Contender[Start, Figures]] = [ours]
    if campaign.ab is not None:
        contenders.append(OwnStart(campaign.model, replace(config, hooks=campaign.ab), threads))
    if campaign.stock:
        contenders.append(StockStart(campaign.model, config, threads))
    if cache == "cold":
        contenders.append(DiskRead())
    runs = alternate(
        contenders,
        start,
        campaign.warmup,
        campaign.repetitions,
        lambda text: say(f"{conditions.label}, {text}"),
        cool,
    )
    if cache == "cold":
        for of_one in runs[:-1]:
            _compare_with_disk(of_one, runs[-1])
    where: dict[str, Any] = environment(
        campaign.model, header, ours.device, watch.stamp, watch.at_start
    )
    return Report(
        where,
        tuple(
            conditions.result(contender.settings, its_runs, runs[0])
            for contender, its_runs in zip(contenders, runs, strict=True)
        ),
    )


def _compare_with_disk(runs: Sequence[Figures], disk: Sequence[Figures]) -> None:
    """Add to each run what part of the disk's rate in the same round it read with."""
    for run, read in zip(runs, disk, strict=True):
        if "read_bytes_per_s" in read and "read_bytes_per_s" in run:
            run["of_disk"] = run["read_bytes_per_s"] / read["read_bytes_per_s"]
