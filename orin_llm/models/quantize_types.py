"""The kinds of file that a model can be quantized to: those of llama.cpp's own tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orin_llm.errors import UsageError


@dataclass(frozen=True)
class FileType:
    """A kind of file.

    Attributes:
        code: the value of `general.file_type`.
        quantizes: whether matrices get blocks, so that a mix of types is chosen for them.
        only_copies: every tensor keeps the type that it has.
    """

    name: str
    code: int
    quantizes: bool = True
    only_copies: bool = False


_QUANTIZED = {
    "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9,
    "Q2_K": 10, "Q2_K_S": 21, "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15,
    "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18,
    "IQ1_S": 24, "IQ1_M": 31, "IQ2_XXS": 19, "IQ2_XS": 20, "IQ2_S": 28, "IQ2_M": 29,
    "IQ3_XXS": 23, "IQ3_XS": 22, "IQ3_S": 26, "IQ3_M": 27, "IQ4_NL": 25, "IQ4_XS": 30,
    "TQ1_0": 36, "TQ2_0": 37, "MXFP4_MOE": 38, "Q1_0": 40, "Q2_0": 41,
}  # fmt: skip
_FLOATS = {"F32": 0, "F16": 1, "BF16": 32}
_SHORT = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}

FILE_TYPES = {
    **{name: FileType(name, code) for name, code in _QUANTIZED.items()},
    **{name: FileType(name, code, quantizes=False) for name, code in _FLOATS.items()},
    "COPY": FileType("COPY", 0, quantizes=False, only_copies=True),
}


def file_type_named(name: str, among: Mapping[str, FileType] = FILE_TYPES) -> FileType:
    """The file type of that name, in any letter case.

    Raises:
        UsageError: there is none; the message lists those there are.
    """
    upper = name.upper()
    found = among.get(_SHORT.get(upper, upper))
    if found is None:
        raise UsageError(f"unknown quantization {name!r}; choose one of: {', '.join(among)}")
    return found
