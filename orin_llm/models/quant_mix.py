"""Which type each tensor gets in a quantized file: the rules of llama.cpp's quantizer.

Only what a dense llama-architecture model without an importance matrix meets, with every row
divisible by 256, so that no fallback type is needed (src/llama-quant.cpp, upstream 0c1e57098).
"""

from __future__ import annotations

from dataclasses import dataclass

from orin_llm.errors import UsageError


@dataclass(frozen=True)
class FileType:
    """A kind of quantized file.

    Attributes:
        code: the value of `general.file_type`.
        base: the type of a matrix that no rule singles out.
        output: the type of the output matrix, and of the embeddings where these are the output.
        sensitive: the type that attn_v and ffn_down get in the layers that need more bits.
    """

    code: int
    base: str
    output: str
    sensitive: str


FILE_TYPES = {
    "Q4_K_M": FileType(code=15, base="Q4_K", output="Q6_K", sensitive="Q6_K"),
    "Q6_K": FileType(code=18, base="Q6_K", output="Q6_K", sensitive="Q6_K"),
    "Q8_0": FileType(code=7, base="Q8_0", output="Q8_0", sensitive="Q8_0"),
    "Q4_0": FileType(code=2, base="Q4_0", output="Q6_K", sensitive="Q4_0"),
    "F16": FileType(code=1, base="F16", output="F16", sensitive="F16"),
}


def file_type_named(name: str) -> FileType:
    """The file type of that name, in any letter case.

    Raises:
        UsageError: there is none; the message lists those there are.
    """
    if name.upper() not in FILE_TYPES:
        raise UsageError(f"unknown quantization {name!r}; choose one of: {', '.join(FILE_TYPES)}")
    return FILE_TYPES[name.upper()]


def needs_more_bits(layer: int, n_layer: int) -> bool:
    """True for the first and the last eighth of the layers, and every third one between."""
    first = n_layer // 8
    return layer < first or layer >= 7 * n_layer // 8 or (layer - first) % 3 == 2


def is_output_matrix(name: str, *, tied_embeddings: bool) -> bool:
    """True for the matrix that makes the logits: tied embeddings serve as the output too."""
    return name == ("token_embd.weight" if tied_embeddings else "output.weight")


def matrix_type(file_type: FileType, name: str, *, n_layer: int, tied_embeddings: bool) -> str:
    """The ggml type of a matrix. Vectors (norms, RoPE factors) are always F32 and not asked for."""
    if is_output_matrix(name, tied_embeddings=tied_embeddings):
        return file_type.output
    if name.endswith((".attn_v.weight", ".ffn_down.weight")):
        layer = int(name.split(".")[1])
        if needs_more_bits(layer, n_layer):
            return file_type.sensitive
    return file_type.base
