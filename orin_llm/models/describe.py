"""What a header says about a model: its quantization, size, context and chat template."""

from __future__ import annotations

import math
from dataclasses import dataclass

from orin_llm.gguf.header import Header
from orin_llm.gguf.kv_layers import Hyperparameters
from orin_llm.models.quantize_types import FILE_TYPES
from orin_llm.models.quants import label

# By `general.file_type`; MXFP4_MOE is so called by the tool alone.
_FILE_TYPES = {
    **{kind.code: kind.name for kind in FILE_TYPES.values() if not kind.only_copies},
    38: "MXFP4",
    39: "NVFP4",
}


@dataclass(frozen=True)
class TypeShare:
    """How much of a model is stored in one tensor type."""

    type: str
    tensors: int
    bytes: int


def quant(header: Header, file_name: str) -> str:
    """The quantization: what the header states, else the file's name, else the largest type."""
    stated = header.metadata.get("general.file_type")
    if isinstance(stated, int) and stated in _FILE_TYPES:
        return _FILE_TYPES[stated]
    from_name = label(file_name.rpartition(".")[0])
    if from_name:
        return from_name
    mix = type_mix(header)
    return mix[0].type if mix else ""


def context(header: Header) -> int:
    """Tokens the model was trained for; 0 where the header does not say."""
    return Hyperparameters(header).integer("context_length")


def parameters(header: Header) -> int:
    """Elements of all tensors."""
    return sum(math.prod(tensor.shape) for tensor in header.tensors)


def count_text(number: int) -> str:
    """`8.03 B`, `134.5 M`."""
    if number >= 1_000_000_000:
        return f"{number / 1e9:.2f} B"
    return f"{number / 1e6:.1f} M"


def type_mix(header: Header) -> list[TypeShare]:
    """Bytes and tensors by type, the largest first."""
    totals: dict[str, list[int]] = {}
    for tensor in header.tensors:
        entry = totals.setdefault(tensor.type, [0, 0])
        entry[0] += 1
        entry[1] += tensor.nbytes
    shares = [TypeShare(name, count, size) for name, (count, size) in totals.items()]
    return sorted(shares, key=lambda share: (-share.bytes, share.type))


def template_features(header: Header) -> list[str] | None:
    """What the chat template provides for; None where the file has no template.

    Read off the words in the template, so a hint, not a promise.
    """
    template = header.metadata.get("tokenizer.chat_template")
    if not isinstance(template, str):
        return None
    features = []
    if "system" in template:
        features.append("system prompt")
    if "tools" in template:
        features.append("tools")
    if "<think>" in template or "enable_thinking" in template:
        features.append("thinking")
    if "raise_exception" in template:
        features.append("checks the order of roles")
    named = header.metadata.get("tokenizer.chat_templates")
    if isinstance(named, list) and named:
        features.append(f"variants: {', '.join(str(name) for name in named)}")
    return features
