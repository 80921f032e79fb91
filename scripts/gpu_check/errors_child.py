"""Products of random weights and activations by llama.cpp's kernels and by ours, beside float64.

    python -m gpu_check.errors_child stock FOLDER gpu|cpu     leaves a file for each product
    python -m gpu_check.errors_child ours FOLDER MODULE       prints the errors, one a line

Two processes, because our kernels may be those of the emulation, which bring sanitizers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from gpu_check.kernel_child import load
from gpu_check.kernel_shapes import TYPES
from gpu_check.probes import probes

_FULL, _TINY = (512, 4096), (32, 512)  # rows, values
_TOKENS, _FEW_TOKENS = (1, 2, 8, 32, 512), (1, 2)
_OUTLIERS = 0.01  # of activations, ten times as large: what quantizing them is bad at
_FORMS = {"vector": 1, "product": 2}  # RowFormat of what they read; f32 for f16 weights
Floats = NDArray[np.float32]


def main() -> None:
    what, folder, last = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    if what == "stock":
        _write_products(folder, gpu=last == "gpu")
    else:
        _compare(folder, load(last))


def _write_products(folder: Path, *, gpu: bool) -> None:
    rng = np.random.default_rng(0)
    n_rows, n_values = _FULL if gpu else _TINY
    for name in TYPES:
        floats = rng.normal(0, 0.05, (n_rows, n_values)).astype(np.float32)
        rows = probes().quantize(name, floats)
        weights = gguf.dequantize(rows, gguf.GGMLQuantizationType[name.upper()])
        for n_tokens in _TOKENS if gpu else _FEW_TOKENS:
            x = rng.normal(size=(n_tokens, n_values)).astype(np.float32)
            x[rng.random(x.shape) < _OUTLIERS] *= 10
            stock = probes().stock_product(name, rows, x, gpu=gpu)
            exact = x.astype(np.float64) @ weights.astype(np.float64).T
            path = folder / f"{TYPES.index(name)}.{n_tokens:04}.npz"
            np.savez(path, rows=rows, x=x, stock=stock, exact=exact)


def _compare(folder: Path, kernels: Any) -> None:
    for path in sorted(folder.glob("*.npz")):
        data = np.load(path)
        kind, n_tokens = map(int, path.name.split(".")[:2])
        stock = _error(data["stock"], data["exact"])
        for form in _FORMS:
            found = _ours(kernels, form, kind, data["rows"], data["x"])
            if found is not None:
                error = _error(found, data["exact"])
                line = {
                    "name": f"{TYPES[kind]} ×{n_tokens}, {form}",
                    "ours": error,
                    "stock": stock,
                    "ratio": error / stock,
                }
                print(json.dumps(line), flush=True)


def _error(found: Floats, exact: NDArray[np.float64]) -> float:
    """Root mean square, relative to that of the exact result."""
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))


def _ours(kernels: Any, form: str, kind: int, rows: NDArray[np.uint8], x: Floats) -> Floats | None:
    n_values = x.shape[1]
    row_format = 0 if form == "vector" and TYPES[kind] == "f16" else _FORMS[form]
    nothing = np.zeros(0, np.uint8)
    prepared = kernels.prepare_rows(
        x, n_values=n_values, residual=None, post_weight=None, post_eps=0.0, weight=None, eps=0.0,
        sum="", normed=False, format=row_format, prefetched=nothing, offset=0,
    )[2]  # fmt: skip
    arguments = {
        "input": prepared, "input_format": row_format, "n_values": n_values,
        "matrices": [(kind, rows, None)], "gate": 0, "residual": None, "out_format": -1,
        "rows_per_warp": 1, "n_splits": 1,
    }  # fmt: skip
    if not getattr(kernels, f"can_matrix_{form}")(arguments):
        return None
    result: Floats = getattr(kernels, f"matrix_{form}")(arguments)[0]
    return result


if __name__ == "__main__":
    main()
