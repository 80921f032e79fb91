"""llama-cpp-python's own quantizer, in a process of its own: what ours is held against.

Run as a program it is that process: it loads nothing native of this package.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NO_TYPE = 43  # GGML_TYPE_COUNT


@dataclass(frozen=True)
class StockFile:
    """A file that the library makes.

    Attributes:
        patterns: regular expressions of tensors' names, and the numbers of ggml's types.
        weights: of an importance matrix, by tensor.
        metadata: set in the new file, in this order; numbers as u32.
        fields: of llama_model_quantize_params, such as pure.
    """

    source: Path
    out: Path
    file_type: int
    patterns: Sequence[tuple[str, int]] = ()
    weights: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    metadata: Sequence[tuple[str, str | int]] = ()
    fields: Mapping[str, bool | int] = field(default_factory=dict)


def stock_quantize(files: Sequence[StockFile]) -> None:
    """Make them with the library that the [stock] extra has."""
    requests = [
        {
            **vars(file),
            "source": str(file.source),
            "out": str(file.out),
            "weights": {name: values.tolist() for name, values in file.weights.items()},
        }
        for file in files
    ]
    command = [sys.executable, __file__]
    subprocess.run(command, input=json.dumps(requests), text=True, check=True, timeout=300)


def main() -> None:
    import llama_cpp

    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(
        lambda level, text, data: None
    )
    llama_cpp.llama_log_set(ctypes.cast(quiet, llama_cpp.llama_log_callback), None)
    for request in json.load(sys.stdin):
        _quantize(request)


def _quantize(request: dict[str, Any]) -> None:
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = request["file_type"]
    params.nthread = 2
    for name, value in request["fields"].items():
        setattr(params, name, value)
    kept = [
        _set(params, "tt_overrides", _patterns(request["patterns"])),
        _set(params, "imatrix", _weights(request["weights"])),
        _set(params, "kv_overrides", _metadata(request["metadata"])),
    ]
    source, out = request["source"].encode(), request["out"].encode()
    if llama_cpp.llama_model_quantize(source, out, params) != 0:
        sys.exit(f"stock llama.cpp refused {request['out']}")
    del kept


def _patterns(given: Sequence[tuple[str, int]]) -> list[Any]:
    from llama_cpp.llama_cpp import llama_model_tensor_override as entry

    return [entry(pattern.encode(), number) for pattern, number in given] + [entry(None, _NO_TYPE)]


def _weights(given: Mapping[str, list[float]]) -> list[Any]:
    from llama_cpp.llama_cpp import llama_model_imatrix_data as entry

    tables = {name: (ctypes.c_float * len(values))(*values) for name, values in given.items()}
    return [entry(name.encode(), table, len(table)) for name, table in tables.items()] + [entry()]


def _metadata(given: Sequence[tuple[str, str | int]]) -> list[Any]:
    import llama_cpp

    entries = []
    for key, value in [*given, ("", 0)]:
        entry = llama_cpp.llama_model_kv_override()
        entry.key = key.encode()
        if isinstance(value, str):
            entry.tag = llama_cpp.LLAMA_KV_OVERRIDE_TYPE_STR
            entry.value.val_str = value.encode()
        else:
            entry.tag = llama_cpp.LLAMA_KV_OVERRIDE_TYPE_INT
            entry.value.val_i64 = value
        entries.append(entry)
    return entries


def _set(params: Any, field: str, entries: list[Any]) -> Any:
    """The last entry only ends the array, which the caller keeps alive."""
    if len(entries) == 1:
        return None
    array = (type(entries[0]) * len(entries))(*entries)
    setattr(params, field, array)
    return array


if __name__ == "__main__":
    main()
