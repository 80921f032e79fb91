"""What tells one model's keys and values from another's."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from orin_llm import _native
from orin_llm.errors import ModelFileError
from orin_llm.gguf.split import parts_of

TENSOR_BYTES = 4096  # read of each tensor: fine-tuned weights differ from the beginning on


def model_fingerprint(path: Path) -> str:
    """SHA-256, in hex, of the metadata, the tensor table, and the beginning of every tensor.

    The same for a model in one file and for one cut into several.

    Args:
        path: the model's file, or the first one of a split model.

    Raises:
        ModelFileError: a file is missing or damaged.
    """
    raw_path: Any = os.fsencode(path)
    header = _native.check_gguf(raw_path)
    metadata = {key: v for key, v in header.metadata.items() if not key.startswith("split.")}
    tensors = sorted(header.tensors, key=lambda tensor: tensor.name)
    table = [(tensor.name, tensor.type, tensor.shape) for tensor in tensors]
    digest = hashlib.sha256(json.dumps([metadata, table], sort_keys=True).encode())
    beginnings = _beginnings(path, header)
    for tensor in tensors:
        digest.update(beginnings[tensor.name])
    return digest.hexdigest()


def _beginnings(path: Path, header: _native.GgufHeader) -> dict[str, bytes]:
    """The first bytes of every tensor's data, by name."""
    files = parts_of(path.name) if header.n_parts > 1 else (path.name,)
    beginnings = {}
    try:
        for number, name in enumerate(files):
            with path.with_name(name).open("rb") as file:
                for tensor in header.tensors:
                    if tensor.part == number:
                        file.seek(tensor.offset)
                        beginnings[tensor.name] = file.read(min(tensor.nbytes, TENSOR_BYTES))
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}", path=str(path)) from error
    return beginnings
