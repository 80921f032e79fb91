"""The flags of `orin-llm accept`: what is checked, and what it is held to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orin_llm.cli.options import flag
from orin_llm.cli.quality_options import TEXT, EncodingFlag, TextFlag, evaluation_corpus
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.accept.thresholds import Thresholds
    from orin_llm.engine import EngineConfig
    from orin_llm.quality.base_logits import BaseLogits
    from orin_llm.quality.compare import Side

LIMITS = "Limits"


@dataclass(frozen=True)
class LimitOptions:
    """What the figures are held to: of a file, and single ones."""

    thresholds: Annotated[
        Path | None,
        flag(
            "--thresholds",
            panel=LIMITS,
            metavar="FILE",
            help="Limits by board and model, and shapes, in TOML, on top of those that ship.",
        ),
    ] = None
    ttft_std: Annotated[
        float | None,
        flag(
            "--ttft-std", panel=LIMITS, metavar="MS", help="1: standard deviation of TTFT, below."
        ),
    ] = None
    tpot_growth: Annotated[
        float | None,
        flag("--tpot-growth", panel=LIMITS, metavar="MS", help="2: growth of TPOT, below."),
    ] = None
    prefill_gpu: Annotated[
        float | None,
        flag("--prefill-gpu", panel=LIMITS, metavar="PERCENT", help="3: GPU in prefill, above."),
    ] = None
    memory: Annotated[
        float | None,
        flag("--memory", panel=LIMITS, metavar="PERCENT", help="3: memory in use, below."),
    ] = None
    hit_rate: Annotated[
        float | None,
        flag("--hit-rate", panel=LIMITS, metavar="PERCENT", help="4: page hit rate, at least."),
    ] = None
    ppl_ratio: Annotated[
        float | None,
        flag(
            "--ppl-ratio",
            panel=LIMITS,
            metavar="RATIO",
            help="6: perplexity over the reference's, at most.",
        ),
    ] = None
    requests_per_s: Annotated[
        float | None,
        flag(
            "--requests-per-s", panel=LIMITS, metavar="RATE", help="7: requests a second, at least."
        ),
    ] = None

    def read(self) -> Thresholds:
        """All of it; UsageError where a file or a limit cannot be used."""
        from orin_llm.accept.thresholds import read_thresholds

        return read_thresholds(self.thresholds).with_flags(
            {
                "ttft_std_ms": self.ttft_std,
                "tpot_growth_ms": self.tpot_growth,
                "prefill_gpu_percent": self.prefill_gpu,
                "memory_percent": self.memory,
                "hit_rate_percent": self.hit_rate,
                "ppl_ratio": self.ppl_ratio,
                "requests_per_s": self.requests_per_s,
            }
        )


@dataclass(frozen=True)
class QualityOptions:
    """What the model's perplexity is compared with."""

    reference: Annotated[
        str | None,
        flag(
            "--reference",
            panel=TEXT,
            metavar="MODEL",
            help="6: the unquantized model: a name in the store, or a path.",
        ),
    ] = None
    logits: Annotated[
        Path | None,
        flag(
            "--logits",
            panel=TEXT,
            metavar="FILE",
            help="6: in place of it, what `perplexity --save-logits` wrote.",
        ),
    ] = None
    text: TextFlag = None
    encoding: EncodingFlag = None

    def source(
        self, model: Path, config: EngineConfig, window_tokens: int
    ) -> tuple[Side | BaseLogits | None, str | None]:
        """The reference, and the text that both foretell; None where nothing is given.

        Raises:
            UsageError: both are given, or one cannot be used.
            ModelFileError: the reference is missing or damaged.
        """
        from dataclasses import replace

        from orin_llm.accept.perplexity import require_unquantized
        from orin_llm.models.store import resolve
        from orin_llm.quality.base_logits import BaseLogits
        from orin_llm.quality.compare import Side

        if self.reference is not None and self.logits is not None:
            raise UsageError("--reference and --logits are two references: leave one out")
        if self.logits is not None:
            if self.text is not None:
                raise UsageError("--text has no use here: the file of --logits brings its own")
            return BaseLogits.read(self.logits), None
        if self.reference is None:
            return None, None
        path = resolve(self.reference)
        if path.samefile(model):
            raise UsageError(f"--reference {self.reference} is the model that is checked itself")
        require_unquantized(path)
        side = Side(path, replace(config, n_ctx=window_tokens, kv_type="f16"))
        return side, evaluation_corpus(self.text, self.encoding).text
