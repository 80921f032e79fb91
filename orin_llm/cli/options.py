"""The flags of every command that runs a model, and their environment mirrors.

The defaults repeat those of `EngineConfig`, so that `--help` need not import the engine; a test
holds them together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orin_llm.cli.option_groups import NOTHING_GIVEN, Given
from orin_llm.models.names import DEFAULT_MODEL

if TYPE_CHECKING:
    from orin_llm.engine import EngineConfig

MODEL = "Model"


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
CpusFlag = Annotated[
    str,
    flag(
        "--cpus",
        panel=MODEL,
        metavar="CORES",
        help="The cores that these threads may use: 0-3,6; all if not given.",
    ),
]
FlashFlag = Annotated[
    str,
    flag(
        "--flash",
        panel=MODEL,
        metavar="[auto|on|off]",
        help="Flash attention, where llama.cpp's attention computes.",
    ),
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
ChunkSizeFlag = Annotated[
    int, flag("--chunk-size", panel=MODEL, help="Prompt tokens computed in one step.")
]
PageSizeFlag = Annotated[
    int, flag("--page-size", panel=MODEL, help="Tokens in a page of the KV cache: 8, 16 … 256.")
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
ProfileFlag = Annotated[
    str | None,
    flag(
        "--profile",
        panel=MODEL,
        metavar="NAME|FILE",
        help="Tuned settings for what is not given here; the ones that fit this machine if not "
        "given.",
    ),
]
NoProfileFlag = Annotated[
    bool, flag("--no-profile", panel=MODEL, help="Use no tuned settings: the defaults.")
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
    cpus: CpusFlag = ""
    gpu_layers: GpuLayersFlag = -1
    kv_type: KvTypeFlag = "f16"
    chunk_size: ChunkSizeFlag = 512
    page_size: PageSizeFlag = 16
    kv_memory: KvMemoryFlag = None
    flash: FlashFlag = "auto"
    prefix_cache: PrefixCacheFlag = True
    hooks: HooksFlag = "all"
    kernels: KernelsFlag = None
    mmap: MmapFlag = True
    check_tensors: CheckTensorsFlag = False
    profile: ProfileFlag = None
    no_profile: NoProfileFlag = False
    given: Given = NOTHING_GIVEN

    def config(self, *, quiet: bool = False) -> EngineConfig:
        """The engine's configuration: by the flags, and a profile where they say nothing.

        One line on stderr says which profile, unless `quiet`.

        Raises:
            UsageError: a value cannot be, or no such profile is there.
            ModelFileError: the model that a profile is looked for is missing or damaged.
        """
        from orin_llm.cli.profile_use import profile_settings
        from orin_llm.engine import EngineConfig, Hooks, Kernels

        config = EngineConfig(
            n_ctx=self.ctx_size,
            chunk_size=self.chunk_size,
            threads=self.threads,
            cpus=self.cpus,
            gpu_layers=self.gpu_layers,
            hooks=Hooks.parse(self.hooks),
            kernels=Kernels() if self.kernels is None else Kernels.parse(self.kernels),
            kv_type=self.kv_type,
            page_size=self.page_size,
            kv_memory=self.kv_memory,
            flash_attention=self.flash,
            prefix_cache=self.prefix_cache,
            use_mmap=self.mmap,
            check_tensors=self.check_tensors,
        )
        tuned: dict[str, Any] = profile_settings(self, quiet=quiet)
        return replace(config, **tuned)
