"""What quantizing a model will do, tensor by tensor, and every reason why it cannot."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from orin_llm import _native
from orin_llm._native import GgufHeader, QuantizedTensor, QuantizeParams
from orin_llm.errors import ModelFileError, UsageError
from orin_llm.gguf.split import part_paths
from orin_llm.models.quantize_keep import EMBEDDINGS, OUTPUT, Keep
from orin_llm.models.quantize_types import FileType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Rows in work at a time: few enough that what one step writes is in the processor's cache for the
# next, enough that starting threads costs nothing beside.
_BUFFER_BYTES = 32 << 20
_TABLES = (EMBEDDINGS, "per_layer_token_embd.weight", OUTPUT)
# Types that are garbage without importance, except in the tables (src/llama-quant.cpp, upstream
# 0c1e57098).
_TINY_TYPES = ("IQ3_XXS", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_M", "IQ1_S")


@dataclass(frozen=True)
class Importance:
    """An importance matrix, as the quantizer takes it.

    Attributes:
        file: where it comes from, as the user wrote it: it is kept in the new file.
        weights: by tensor, [n_matrices * n_inputs], mean squares of the inputs.
        dataset: what it was collected over, or "".
        chunks: how many pieces of text that was, or 0.
    """

    file: str
    weights: Mapping[str, NDArray[np.float32]]
    dataset: str = ""
    chunks: int = 0


@dataclass(frozen=True)
class Request:
    """What the user wants."""

    source: Path
    file_type: FileType
    keep: Keep = field(default_factory=Keep)
    pure: bool = False
    allow_requantize: bool = False
    importance: Importance | None = None


@dataclass(frozen=True)
class QuantizePlan:
    """A request that can be done.

    Attributes:
        files: the model's, in order.
        tensors: what becomes of each, in the order in which they are written.
        file_bytes: of the new file, but for a few bytes of metadata.
    """

    request: Request
    files: tuple[Path, ...]
    header: GgufHeader
    tensors: Sequence[QuantizedTensor]

    @property
    def source_bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def file_bytes(self) -> int:
        alignment = self.header.alignment
        return self.header.data_offset + sum(
            -(-tensor.new_bytes // alignment) * alignment for tensor in self.tensors
        )

    def params(self, threads: int) -> QuantizeParams:
        """For `_native.quantize`."""
        return _params(self.request, threads)


def make_plan(request: Request) -> QuantizePlan:
    """Look at the model's header and settle every tensor's type, by llama.cpp's own rules.

    Raises:
        ModelFileError: a file is damaged, of another kind or missing, or is quantized already and
            the request does not allow for it.
        UsageError: the request contradicts itself or the model.
    """
    files = part_paths(request.source)
    header = _native.check_gguf(os.fsencode(files[0]))
    files = files[: header.n_parts]  # a whole model may have the name of a part
    if not header.tensors:
        raise ModelFileError(
            f"{request.source} holds a vocabulary and no weights", path=str(request.source)
        )
    _check_keep(request, header)
    _check_values(request.importance)
    tensors = _native.plan_quantization(os.fsencode(files[0]), _params(request, 1))
    _check_output(request, tensors)
    _check_requantizing(request, tensors)
    _check_importance(request, tensors)
    return QuantizePlan(request, files, header, tensors)


def _params(request: Request, threads: int) -> QuantizeParams:
    importance = request.importance
    text: dict[str, bytes] = {}
    numbers: dict[str, int] = {}
    if importance is not None:
        text["quantize.imatrix.file"] = os.fsencode(importance.file)
        if importance.dataset:
            text["quantize.imatrix.dataset"] = os.fsencode(importance.dataset)
        numbers["quantize.imatrix.entries_count"] = len(importance.weights)
        if importance.chunks > 0:
            numbers["quantize.imatrix.chunks_count"] = importance.chunks
    return _native.QuantizeParams(
        file_type=request.file_type.code,
        only_copy=request.file_type.only_copies,
        pure=request.pure,
        allow_requantize=request.allow_requantize,
        threads=threads,
        buffer_bytes=_BUFFER_BYTES,
        output_type=request.keep.output,
        embedding_type=request.keep.embeddings,
        type_patterns=list(request.keep.patterns),
        importance={} if importance is None else dict(importance.weights),
        text_metadata=text,
        number_metadata=numbers,
    )


def _check_keep(request: Request, header: GgufHeader) -> None:
    """What llama.cpp would ignore without a word, or end the process for."""
    kind, keep = request.file_type, request.keep
    if keep and kind.only_copies:
        raise UsageError(f"--keep has no meaning with {kind.name}: every tensor keeps its type")
    if keep.patterns and not kind.quantizes:
        raise UsageError(
            f"--keep {keep.patterns[0][0]}=… has no meaning with {kind.name}: only output and "
            "token_embd can have another type there"
        )
    rows = {tensor.name: tensor.shape[0] for tensor in header.tensors}
    for name, ggml_type in ((OUTPUT, keep.output), (EMBEDDINGS, keep.embeddings)):
        if ggml_type is None or name not in rows:
            continue
        block = _native.block_elements(ggml_type)
        if rows[name] % block:
            raise UsageError(
                f"{name} cannot be {ggml_type}: its rows of {rows[name]} weights do not divide by "
                f"blocks of {block}"
            )


def _check_output(request: Request, tensors: Sequence[QuantizedTensor]) -> None:
    wanted = request.keep.output
    by_name = {tensor.name: tensor for tensor in tensors}
    if wanted is None or OUTPUT in by_name:
        return
    table = by_name.get(EMBEDDINGS)
    if table is None or wanted not in (table.new_type, table.wanted_type):
        raise UsageError(
            f"--keep output={wanted} has no effect: the model has no {OUTPUT}, its embeddings "
            "are the output, too; name token_embd alone"
        )


def _check_requantizing(request: Request, tensors: Sequence[QuantizedTensor]) -> None:
    if request.allow_requantize:
        return
    floats = ("F32", "F16", "BF16")
    lossy = Counter(
        tensor.type
        for tensor in tensors
        if tensor.new_type != tensor.type and tensor.type not in floats
    )
    if lossy:
        found = ", ".join(f"{count} {ggml_type}" for ggml_type, count in lossy.most_common())
        raise ModelFileError(
            f"{request.source} is quantized already ({found} tensors would change), and what that "
            "lost stays lost: take the F16, BF16 or F32 file of the model, or pass "
            "--allow-requantize",
            path=str(request.source),
        )


def _check_values(importance: Importance | None) -> None:
    if importance is None:
        return
    import numpy as np

    for name, values in importance.weights.items():
        if not np.isfinite(values).all() or (values < 0).any():
            raise ModelFileError(
                f"{importance.file}: the values of {name} are not all finite and positive",
                path=importance.file,
            )


def _check_importance(request: Request, tensors: Sequence[QuantizedTensor]) -> None:
    weights = {} if request.importance is None else request.importance.weights
    file = "" if request.importance is None else request.importance.file
    if weights and not any(tensor.name in weights for tensor in tensors):
        raise ModelFileError(f"{file} is of another model: it has none of its tensors", path=file)
    for tensor in tensors:
        if tensor.new_type == tensor.type:
            continue
        found = weights.get(tensor.name)
        due = tensor.n_inputs * tensor.n_matrices
        if found is not None and found.size != due and tensor.name not in _TABLES[:2]:
            raise ModelFileError(
                f"{file} is of another model: {tensor.name} has {due} inputs, it has values for "
                f"{found.size}",
                path=file,
                field=tensor.name,
            )
        if _needs_importance(request, tensor) and (found is None or found.size != due):
            raise UsageError(
                f"{request.file_type.name} needs an importance matrix: {tensor.name} would be "
                f"garbage as {tensor.new_type} without one. "
                + (
                    "Make one with `orin-llm imatrix` and pass it with --imatrix"
                    if request.importance is None
                    else f"{file} has none for it; choose its type with --keep"
                )
            )


def _needs_importance(request: Request, tensor: QuantizedTensor) -> bool:
    if _native.needs_importance(tensor.new_type):
        return True
    if tensor.name in _TABLES:
        return False
    if tensor.new_type == "Q2_K":
        return request.file_type.name == "Q2_K_S"
    return tensor.new_type in _TINY_TYPES
