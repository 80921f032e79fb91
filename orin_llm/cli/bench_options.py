"""The flags of `orin-llm bench`: workloads, engines in lists, and what they are compared with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from orin_llm.cli.option_groups import NOTHING_GIVEN, Given
from orin_llm.cli.options import (
    MODEL,
    CheckTensorsFlag,
    CpusFlag,
    GpuLayersFlag,
    HooksFlag,
    KernelsFlag,
    KvMemoryFlag,
    MmapFlag,
    ModelFlag,
    NoProfileFlag,
    PrefixCacheFlag,
    ProfileFlag,
    flag,
)
from orin_llm.errors import UsageError
from orin_llm.models.names import DEFAULT_MODEL

if TYPE_CHECKING:
    from orin_llm.bench.starts import Cache
    from orin_llm.bench.workload import Scenario
    from orin_llm.engine import EngineConfig

WORKLOAD, COMPARISON = "Workload", "Comparison"


@dataclass(frozen=True)
class WorkloadOptions:
    """Which requests are made. What is None takes the workload's own default."""

    prompt_tokens: Annotated[
        str | None,
        flag(
            "-p",
            "--prompt",
            "--prompt-tokens",
            panel=WORKLOAD,
            help="Tokens of a prompt; 64..2048: drawn for each request.",
        ),
    ] = None
    max_tokens: Annotated[
        str | None,
        flag(
            "-n",
            "--gen",
            "--max-tokens",
            panel=WORKLOAD,
            help="Tokens of an answer, or a range to draw.",
        ),
    ] = None
    depth: Annotated[
        str | None,
        flag(
            "-d",
            "--depth",
            panel=WORKLOAD,
            help="single, concurrent: tokens in the KV cache before.",
        ),
    ] = None
    parallel: Annotated[
        str | None,
        flag(
            "-np",
            "--concurrency",
            "--parallel",
            panel=WORKLOAD,
            help="concurrent, interference: streams at once; shared-prefix: requests.",
        ),
    ] = None
    trace: Annotated[
        Path | None,
        flag(
            "--trace",
            panel=WORKLOAD,
            help="concurrent: JSONL or CSV with arrival_ms, prompt_tokens, max_tokens.",
        ),
    ] = None
    long_prompt: Annotated[
        str | None,
        flag("--long-prompt", panel=WORKLOAD, help="interference: tokens of the long prompt."),
    ] = None
    short_prompt: Annotated[
        str | None,
        flag("--short-prompt", panel=WORKLOAD, help="interference: tokens of the one behind it."),
    ] = None
    system_tokens: Annotated[
        str | None,
        flag("--system-tokens", panel=WORKLOAD, help="shared-prefix: tokens of what is shared."),
    ] = None
    page_cache: Annotated[
        str | None,
        flag(
            "--page-cache",
            panel=WORKLOAD,
            metavar="cold,warm",
            help="load: whether the file is in the page cache before.",
        ),
    ] = None

    @property
    def default_workload(self) -> str:
        """What is run where no workload is named."""
        return "single" if self.parallel is None and self.trace is None else "concurrent"

    def scenarios(self, workload: str) -> tuple[Scenario, ...]:
        """All combinations; UsageError where a flag cannot be."""
        from orin_llm.bench.scenarios import scenarios

        return scenarios(workload, self._given(), self.trace)

    def caches(self) -> tuple[Cache, ...]:
        """For load: the states of the page cache; UsageError where there is no such state."""
        from orin_llm.bench.scenarios import caches

        return caches(self._given())

    def _given(self) -> dict[str, str]:
        flags = {
            "-p": self.prompt_tokens,
            "-n": self.max_tokens,
            "-d": self.depth,
            "-np": self.parallel,
            "--long-prompt": self.long_prompt,
            "--short-prompt": self.short_prompt,
            "--system-tokens": self.system_tokens,
            "--page-cache": self.page_cache,
        }
        return {name: value for name, value in flags.items() if value is not None}


@dataclass(frozen=True)
class EnginesOptions:
    """The engines: as for other commands, but lists and ranges make one engine for each value."""

    model: ModelFlag = DEFAULT_MODEL
    threads: Annotated[
        str,
        flag("-t", "--threads", panel=MODEL, help="CPU threads; 0: the physical cores it may use."),
    ] = "0"
    cpus: CpusFlag = ""
    gpu_layers: GpuLayersFlag = -1
    kv_type: Annotated[
        str,
        flag(
            "-ctk",
            "--kv-type",
            panel=MODEL,
            help="KV caches: f16, bf16, q8_0, q4_0, or of keys and of values: q8_0:q4_0.",
        ),
    ] = "f16"
    chunk_size: Annotated[
        str,
        flag("--chunk", "--chunk-size", panel=MODEL, help="Prompt tokens computed in one step."),
    ] = "512"
    page_size: Annotated[
        str,
        flag(
            "--page",
            "--page-size",
            panel=MODEL,
            help="Tokens in a page of the KV cache: 8, 16 … 256.",
        ),
    ] = "16"
    kv_memory: KvMemoryFlag = None
    flash: Annotated[
        str,
        flag(
            "--flash",
            panel=MODEL,
            help="Flash attention, where llama.cpp's attention computes: auto, on, off.",
        ),
    ] = "auto"
    prefix_cache: PrefixCacheFlag = True
    hooks: HooksFlag = "all"
    kernels: KernelsFlag = None
    mmap: MmapFlag = True
    check_tensors: CheckTensorsFlag = False
    profile: ProfileFlag = None
    no_profile: NoProfileFlag = False
    given: Given = NOTHING_GIVEN

    def configs(self, *, quiet: bool = False) -> tuple[EngineConfig, ...]:
        """One configuration for each combination; a profile where the flags say nothing.

        Raises:
            UsageError: a value cannot be, or no such profile is there.
            ModelFileError: the model that a profile is looked for is missing or damaged.
        """
        from orin_llm.cli.profile_use import profile_settings

        flagged = self._flagged()
        tuned: dict[str, Any] = profile_settings(self, quiet=quiet)
        return tuple(replace(config, **tuned) for config in flagged)

    def _flagged(self) -> tuple[EngineConfig, ...]:
        from orin_llm.bench.lengths import parse_numbers
        from orin_llm.engine import EngineConfig, Hooks, Kernels

        kernels = Kernels() if self.kernels is None else Kernels.parse(self.kernels)
        return tuple(
            EngineConfig(
                threads=threads,
                cpus=self.cpus,
                chunk_size=chunk_size,
                page_size=page_size,
                kv_type=kv_type,
                flash_attention=flash,
                gpu_layers=self.gpu_layers,
                kv_memory=self.kv_memory,
                prefix_cache=self.prefix_cache,
                use_mmap=self.mmap,
                check_tensors=self.check_tensors,
                hooks=Hooks.parse(self.hooks),
                kernels=kernels,
            )
            for threads, chunk_size, page_size, kv_type, flash in product(
                parse_numbers(self.threads, "-t"),
                parse_numbers(self.chunk_size, "--chunk-size"),
                parse_numbers(self.page_size, "--page-size"),
                [name.strip() for name in self.kv_type.split(",")],
                [name.strip() for name in self.flash.split(",")],
            )
        )


@dataclass(frozen=True)
class ComparisonOptions:
    """Who takes turns with the engine."""

    ab: Annotated[
        str | None,
        flag(
            "--ab",
            panel=COMPARISON,
            metavar="HOOKS",
            help="A second engine with these hooks takes turns with the first: none, -attention, …",
        ),
    ] = None
    peer: Annotated[
        str | None,
        flag(
            "--peer",
            panel=COMPARISON,
            metavar="stock",
            help="Stock llama.cpp takes turns, in a process of its own; needs the stock extra.",
        ),
    ] = None

    def stock(self) -> bool:
        """Whether stock llama.cpp takes part; UsageError for another peer."""
        if self.peer not in (None, "stock"):
            raise UsageError(f"no peer {self.peer!r}: there is stock")
        return self.peer is not None
