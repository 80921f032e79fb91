"""The flags of every command that runs a model, and their environment mirrors.

The defaults repeat those of `EngineConfig` and `SamplingParams`, so that `--help` need not import
the engine; a test holds them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orin_llm.errors import UsageError
from orin_llm.models.names import DEFAULT_MODEL

if TYPE_CHECKING:
    from orin_llm.engine import EngineConfig, SamplingParams

MODEL, SAMPLING, ANSWER = "Model", "Sampling", "Answer"


def flag(*names: str, help: str, panel: str, **more: Any) -> Any:
    """A Typer option whose environment mirror is made of its last long name: ORIN_LLM_CTX_SIZE."""
    long_name = [name.split("/")[0] for name in names if name.startswith("--")][-1]
    mirror = "ORIN_LLM_" + long_name.removeprefix("--").replace("-", "_").upper()
    return typer.Option(
        *names, help=help, rich_help_panel=panel, envvar=mirror, show_envvar=False, **more
    )


# Of every command that makes an engine:
ModelFlag = Annotated[
    str,
    flag(
        "-m",
        "--model",
        panel=MODEL,
        help="Name in the store, hf:owner/repo:QUANT, or a GGUF file.",
    ),
]
GpuLayersFlag = Annotated[
    int,
    flag("-ngl", "--gpu-layers", panel=MODEL, help="Layers kept on the GPU; -1: all, 0: no GPU."),
]
ThreadsFlag = Annotated[
    int,
    flag("-t", "--threads", panel=MODEL, help="CPU threads; 0: the physical cores it may use."),
]
KvTypeFlag = Annotated[
    str,
    flag(
        "-ctk",
        "--kv-type",
        panel=MODEL,
        help="KV cache: f16, bf16, q8_0, q4_0, or of keys and of values: q8_0:q4_0.",
    ),
]
KvMemoryFlag = Annotated[
    str | None,
    flag(
        "--kv-memory",
        panel=MODEL,
        metavar="TOKENS|SIZE",
        help="What the KV cache may hold in all: 32768 (tokens) or 512MiB.",
    ),
]
PrefixCacheFlag = Annotated[
    bool,
    flag(
        "--prefix-cache/--no-prefix-cache",
        panel=MODEL,
        help="Find the beginnings of earlier prompts in the KV cache again.",
    ),
]
HooksFlag = Annotated[
    str,
    flag(
        "--hooks",
        panel=MODEL,
        help="Changes to llama.cpp: all, none, or -NAME,... for all but these. Names: rope, "
        "pages, attention, sampling, uploads, lanes, gather, matrices, growth.",
    ),
]
MmapFlag = Annotated[
    bool,
    flag(
        "--mmap/--no-mmap",
        panel=MODEL,
        help="CPU: map the file, shared with other processes; or read it.",
    ),
]
CheckTensorsFlag = Annotated[
    bool,
    flag(
        "--check-tensors/--no-check-tensors",
        panel=MODEL,
        help="Refuse a file whose weights are not all finite.",
    ),
]
KernelsFlag = Annotated[
    str | None,
    flag(
        "--kernels",
        panel=MODEL,
        metavar="CHOICES",
        help="GPU: NAME=VALUE,… in place of what the device gives, or @FILE in JSON.",
    ),
]


@dataclass(frozen=True)
class EngineOptions:
    """Which model, and how its engine is made."""

    model: ModelFlag = DEFAULT_MODEL
    ctx_size: Annotated[
        int,
        flag(
            "-c", "--ctx-size", panel=MODEL, help="Tokens of context; 0: the model's, at most 8192."
        ),
    ] = 0
    threads: ThreadsFlag = 0
    gpu_layers: GpuLayersFlag = -1
    kv_type: KvTypeFlag = "f16"
    chunk_size: Annotated[
        int, flag("--chunk-size", panel=MODEL, help="Prompt tokens computed in one step.")
    ] = 512
    page_size: Annotated[
        int, flag("--page-size", panel=MODEL, help="Tokens in a page of the KV cache: 8, 16 … 256.")
    ] = 16
    kv_memory: KvMemoryFlag = None
    prefix_cache: PrefixCacheFlag = True
    hooks: HooksFlag = "all"
    kernels: KernelsFlag = None
    mmap: MmapFlag = True
    check_tensors: CheckTensorsFlag = False

    def config(self) -> EngineConfig:
        """The engine's configuration; UsageError where a value cannot be."""
        from orin_llm.engine import EngineConfig, Hooks, Kernels

        return EngineConfig(
            n_ctx=self.ctx_size,
            chunk_size=self.chunk_size,
            threads=self.threads,
            gpu_layers=self.gpu_layers,
            hooks=Hooks.parse(self.hooks),
            kernels=Kernels() if self.kernels is None else Kernels.parse(self.kernels),
            kv_type=self.kv_type,
            page_size=self.page_size,
            kv_memory=self.kv_memory,
            prefix_cache=self.prefix_cache,
            use_mmap=self.mmap,
            check_tensors=self.check_tensors,
        )


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are drawn."""

    temp: Annotated[
        float, flag("--temp", panel=SAMPLING, help="Temperature; 0: always the likeliest token.")
    ] = 0.8
    top_k: Annotated[int, flag("--top-k", panel=SAMPLING, help="Keep the k likeliest; 0: all.")] = (
        40
    )
    top_p: Annotated[
        float, flag("--top-p", panel=SAMPLING, help="Keep the likeliest that sum to p; 1: all.")
    ] = 0.95
    min_p: Annotated[
        float,
        flag(
            "--min-p", panel=SAMPLING, help="Keep what has p times the likeliest's share; 0: all."
        ),
    ] = 0.05
    seed: Annotated[
        int | None,
        flag(
            "--seed", panel=SAMPLING, help="Of the random draw; a new one each time if not given."
        ),
    ] = None
    repeat_penalty: Annotated[
        float, flag("--repeat-penalty", panel=SAMPLING, help="Weakens recent tokens; 1: off.")
    ] = 1.0
    frequency_penalty: Annotated[
        float,
        flag(
            "--frequency-penalty",
            panel=SAMPLING,
            help="Subtracted for each recent occurrence; 0: off.",
        ),
    ] = 0.0
    presence_penalty: Annotated[
        float,
        flag("--presence-penalty", panel=SAMPLING, help="Subtracted once if it occurred; 0: off."),
    ] = 0.0
    sampler_order: Annotated[
        str,
        flag(
            "--sampler-order",
            panel=SAMPLING,
            metavar="[orin|llama]",
            help="orin: temperature before top-k, top-p and min-p; llama: after them.",
        ),
    ] = "orin"

    def params(self) -> SamplingParams:
        """The sampling parameters; UsageError where a value cannot be."""
        from orin_llm.engine import SamplingParams

        return SamplingParams(
            temperature=self.temp,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            seed=self.seed,
            repeat_penalty=self.repeat_penalty,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            order=self.sampler_order,
        )


@dataclass(frozen=True)
class AnswerOptions:
    """What is said before the prompt, where the answer ends, and what is reported."""

    max_tokens: Annotated[
        int | None,
        flag(
            "-n",
            "--max-tokens",
            panel=ANSWER,
            help="Tokens of the answer at most; -1: until the context is full.",
        ),
    ] = None
    system: Annotated[str | None, flag("--system", panel=ANSWER, help="System prompt.")] = None
    stop: Annotated[
        list[str] | None,
        flag(
            "--stop",
            panel=ANSWER,
            metavar="TEXT",
            help="End the answer before this text; repeatable (environment: separated by spaces).",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        flag("--encoding", panel=ANSWER, help="Encoding of the text that is read, if not UTF-8."),
    ] = None
    quiet: Annotated[
        bool, flag("-q", "--quiet", panel=ANSWER, help="No progress and no statistics on stderr.")
    ] = False

    def limit(self) -> int | None:
        """The most tokens of one answer; None is until the context is full."""
        return answer_limit(self.max_tokens)

    def stops(self) -> tuple[str, ...]:
        """The stop strings, empty ones refused (they would end every answer before it began)."""
        return checked_stops(self.stop or [])


def answer_limit(max_tokens: int | None) -> int | None:
    """Read a token limit as the flags write it: -1 or nothing is no limit."""
    if max_tokens is None or max_tokens == -1:
        return None
    if max_tokens < 1:
        raise UsageError(f"max_tokens is {max_tokens}: expected 1 or more, or -1 for no limit")
    return max_tokens


def checked_stops(stops: list[str]) -> tuple[str, ...]:
    """The stop strings as a tuple; UsageError where one is empty."""
    if "" in stops:
        raise UsageError("a stop string is empty: it would end every answer before it began")
    return tuple(stops)
