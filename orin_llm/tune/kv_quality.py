"""What a KV type costs in quality, so that only types within a bound are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orin_llm.engine import EngineConfig
from orin_llm.errors import ModelFileError, OrinError
from orin_llm.quality.windows import WINDOW_TOKENS

KV_TYPES = ("q8_0", "q8_0:q4_0", "q4_0")
_WINDOWS = 8
_SURE = 2.0  # standard deviations that must be within the bound, too


@dataclass(frozen=True)
class KvQuality:
    """One type beside that of the default.

    Attributes:
        ratio: of the perplexities; uncertainty: its standard deviation. None where the model
            cannot be run with the type: `note` says why.
    """

    kv_type: str
    ratio: float | None
    uncertainty: float | None
    is_allowed: bool
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return dict(vars(self))


def kv_qualities(
    model: Path,
    base: EngineConfig,
    bound: float,
    types: Sequence[str] = KV_TYPES,
    *,
    windows: int = _WINDOWS,
    window_tokens: int = WINDOW_TOKENS,
    say: Callable[[str], None] = lambda text: None,
) -> list[KvQuality]:
    """Compare KV types with that of `base`, on the text that ships for evaluations.

    Args:
        bound: of the ratio of perplexities, with two standard deviations.
        windows: of `window_tokens` tokens, that are compared.

    Raises:
        ModelFileError: the model is damaged or not supported.
    """
    from orin_llm.quality.compare import Side, compare_models
    from orin_llm.quality.texts import evaluation_text

    found = []
    plain = replace(base, n_ctx=window_tokens, max_batch=1, kv_memory=None, publish=False)
    for kv_type in types:
        if kv_type == base.kv_type:
            continue
        say(f"quality with a KV cache of {kv_type}")
        try:
            compared = compare_models(
                Side(model, plain),
                Side(model, replace(plain, kv_type=kv_type)),
                evaluation_text().text,
                most=windows,
            )
        except ModelFileError:
            raise
        except OrinError as error:
            found.append(KvQuality(kv_type, None, None, False, str(error)))
            continue
        ratio = compared.comparison.ppl_ratio
        allowed = ratio.value + _SURE * ratio.uncertainty <= bound
        note = "" if allowed else f"above the bound of {bound:g}"
        found.append(KvQuality(kv_type, ratio.value, ratio.uncertainty, allowed, note))
    return found
