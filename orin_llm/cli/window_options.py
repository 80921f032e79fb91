"""The flags that `perplexity` and `compare` share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from orin_llm.cli.option_groups import NOTHING_GIVEN, Given
from orin_llm.cli.options import (
    MODEL,
    FlashFlag,
    GpuLayersFlag,
    HooksFlag,
    KernelsFlag,
    KvTypeFlag,
    ThreadsFlag,
    flag,
)
from orin_llm.cli.quality_options import (
    TEXT,
    EncodingFlag,
    TextFlag,
    WindowsFlag,
    evaluation_corpus,
)

if TYPE_CHECKING:
    from orin_llm.engine import EngineConfig
    from orin_llm.quality.texts import Corpus

REFERENCE, REPORT = "Reference", "Report"
# Settings of a profile that matter where a window at a time is computed.
_OF_WINDOWS = frozenset(
    ("chunk_size", "page_size", "threads", "kv_type", "flash_attention", "kernels")
)


@dataclass(frozen=True)
class TextOptions:
    """Which text, and how much of it in a window."""

    text: TextFlag = None
    encoding: EncodingFlag = None
    ctx_size: Annotated[
        int,
        flag(
            "-c",
            "--ctx-size",
            panel=TEXT,
            min=16,
            help="Tokens of a window; the second half counts.",
        ),
    ] = 512
    windows: WindowsFlag = None

    def corpus(self) -> Corpus:
        """The text. UsageError, OrinError where there is none."""
        return evaluation_corpus(self.text, self.encoding)


@dataclass(frozen=True)
class ComputeOptions:
    """How the model is computed."""

    kv_type: KvTypeFlag = "f16"
    flash: FlashFlag = "auto"
    hooks: HooksFlag = "all"
    kernels: KernelsFlag = None
    gpu_layers: GpuLayersFlag = -1
    threads: ThreadsFlag = 0
    chunk_size: Annotated[
        int, flag("--chunk-size", panel=MODEL, help="Tokens computed in one step.")
    ] = 512
    page_size: Annotated[
        int, flag("--page-size", panel=MODEL, help="Tokens in a page of the KV cache.")
    ] = 16
    decode: Annotated[
        bool,
        flag(
            "--decode",
            panel=MODEL,
            help="Compute what counts one token in a step, as an answer is, not as a prompt.",
        ),
    ] = False
    profile: Annotated[
        str | None,
        flag(
            "--profile",
            panel=MODEL,
            metavar="NAME|FILE",
            help="Tuned settings for what is not given here; none if not given.",
        ),
    ] = None
    given: Given = NOTHING_GIVEN

    def config(self, ctx_size: int, model: str, *, quiet: bool = False) -> EngineConfig:
        """The engine's configuration, and a profile's that is named where the flags say nothing.

        What judges a model takes no profile by itself: it says the same on every machine.

        Raises:
            UsageError: a value cannot be, or no such profile is there.
            ModelFileError: the profile's model is missing or damaged.
        """
        from orin_llm.cli.profile_use import named_settings

        config = self._config(ctx_size, self.kv_type, self.hooks, self.gpu_layers)
        if self.profile is None:
            return config
        tuned: dict[str, Any] = named_settings(
            self, model, self.profile, self.gpu_layers, quiet=quiet
        )
        return replace(config, **{name: v for name, v in tuned.items() if name in _OF_WINDOWS})

    def reference_config(self, ctx_size: int, reference: ReferenceOptions) -> EngineConfig:
        """The same, of what it is compared with."""
        layers = self.gpu_layers if reference.ref_gpu_layers is None else reference.ref_gpu_layers
        return self._config(ctx_size, reference.ref_kv_type, reference.ref_hooks, layers)

    def _config(self, ctx_size: int, kv_type: str, hooks: str, gpu_layers: int) -> EngineConfig:
        from orin_llm.engine import EngineConfig, Hooks, Kernels

        return EngineConfig(
            n_ctx=ctx_size,
            chunk_size=self.chunk_size,
            threads=self.threads,
            gpu_layers=gpu_layers,
            hooks=Hooks.parse(hooks),
            kernels=Kernels() if self.kernels is None else Kernels.parse(self.kernels),
            kv_type=kv_type,
            flash_attention=self.flash,
            page_size=self.page_size,
        )


@dataclass(frozen=True)
class ReferenceOptions:
    """How the reference is computed, where that is not as the model is."""

    ref_kv_type: Annotated[
        str, flag("--ref-kv-type", panel=REFERENCE, help="The reference's KV cache.")
    ] = "f16"
    ref_hooks: Annotated[
        str, flag("--ref-hooks", panel=REFERENCE, help="The reference's hooks.")
    ] = "all"
    ref_gpu_layers: Annotated[
        int | None,
        flag(
            "--ref-gpu-layers",
            panel=REFERENCE,
            help="The reference's layers on the GPU; those of the model if not given.",
        ),
    ] = None
    logits: Annotated[
        Path | None,
        flag(
            "--logits",
            panel=REFERENCE,
            metavar="FILE",
            help="In place of a reference: its log-probabilities, and the text's tokens, from "
            "`perplexity --save-logits`.",
        ),
    ] = None
