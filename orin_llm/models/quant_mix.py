"""Which type each matrix of a synthetic model gets: asked of llama.cpp's quantizer."""

from __future__ import annotations

from collections.abc import Iterable

from orin_llm.models import quantize_types
from orin_llm.models.quantize_types import FileType
from orin_llm.models.shapes import ModelShape

# Those that give matrices of these shapes no other type than `random_blocks` can make.
FILE_TYPES = {
    name: quantize_types.FILE_TYPES[name] for name in ("Q4_K_M", "Q6_K", "Q8_0", "Q4_0", "F16")
}


def matrix_types(
    model: ModelShape, file_type: FileType, matrices: Iterable[tuple[str, tuple[int, ...]]]
) -> dict[str, str]:
    """The ggml type of each matrix, by its name. They are all that the model has, in order.

    Vectors (norms, RoPE factors) are always F32 and not asked for.

    Args:
        matrices: names and shapes, [inputs, outputs].
    """
    from orin_llm import _native

    wanted = [(name, n_in, n_out) for name, (n_in, n_out) in matrices]
    types = _native.matrix_types(
        architecture="llama",
        n_layer=model.n_layer,
        n_embd=model.n_embd,
        n_ff=model.n_ff,
        n_head=model.n_head,
        n_head_kv=model.n_head_kv,
        head_dim=model.head_dim,
        file_type=file_type.code,
        matrices=wanted,
    )
    return {name: found for (name, _, _), found in zip(wanted, types, strict=True)}
