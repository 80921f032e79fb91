"""Times kernels in this process: a line of JSON for each number of tokens and each way to cut it.

python -m gpu_check.kernel_child MODULE full|tiny
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_check.kernel_shapes import BLOCKS, FULL, TINY, TYPES, Context, Product, Work, row_bytes

Bytes = NDArray[np.uint8]
# Of RowFormat (cuda/activation_rows.h), and of KvType (cuda/kv_type.h).
_F32, _INT8, _F16 = range(3)
_FORMS = ("fastest", "floats", "matrices")  # AttentionForm (cuda/paged_attention.h)
_KV_TYPES = ("f16", "bf16", "q8_0", "q4_0")
_FEW = 32  # tokens up to which products are cut into splits in other ways than their own
_GROUP = 32  # values of an int8 row with one scale
_PATTERN_ROWS = 16  # of weights, there over and over
# Where a block has them.
_SCALES = {
    "q8_0": (0,),
    "q4_0": (0,),
    "q4_1": (0, 2),
    "q4_K": (0, 2),
    "q5_K": (0, 2),
    "q6_K": (208,),
}


def main() -> None:
    kernels = load(sys.argv[1])
    work = {"full": FULL, "tiny": TINY}[sys.argv[2]]
    for product in work.products:
        for timing in _times_of_product(kernels, product, work):
            print(json.dumps(timing), flush=True)
    for timing in _times_of_rows(kernels, work):
        print(json.dumps(timing), flush=True)
    for context in work.contexts:
        for timing in _times_of_context(kernels, context, work):
            print(json.dumps(timing), flush=True)


def load(path: str) -> Any:
    """The module of tests/kernels."""
    spec = importlib.util.spec_from_file_location("orin_kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _times_of_product(kernels: Any, product: Product, work: Work) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(0)
    timer = kernels.MatrixTimer(
        [
            (TYPES.index(name), rows, _weights(random, name, product.n_values))
            for name, rows in product.matrices
        ],
        n_values=product.n_values,
        gated=product.gated,
        cache_bytes=work.cache_bytes,
    )
    few = _F32 if product.type == "f16" else _INT8
    ways = [
        ("vector", few, n_tokens, rows, splits)
        for n_tokens in work.vector_tokens
        for rows in work.rows_per_warp
        for splits in work.splits
    ]
    ways += [
        ("product", _F16, n_tokens, 1, splits)
        for n_tokens in work.product_tokens
        for splits in work.product_splits
        if splits == 0 or n_tokens <= _FEW
    ]
    for form, layout, n_tokens, rows_per_warp, n_splits in ways:
        row = _activations(random, layout, product.n_values)
        found = timer.time(
            form,
            format=layout,
            row=row,
            n_tokens=n_tokens,
            rows_per_warp=rows_per_warp,
            n_splits=n_splits,
            repetitions=work.repetitions,
        )
        if found is not None:
            times_us, rows_used, splits_used = found
            yield {
                "kind": form,
                "name": product.label,
                "type": product.type,
                "large": product.large,
                "tokens": n_tokens,
                "rows_per_warp": rows_per_warp,
                "splits": n_splits,
                "rows_used": rows_used,
                "splits_used": splits_used,
                "bytes": product.weight_bytes,
                "flops": 2 * product.n_rows * product.n_values * n_tokens,
                "us": times_us,
            }


def _times_of_rows(kernels: Any, work: Work) -> Iterator[dict[str, Any]]:
    for n_values, n_tokens in work.rows:
        for layout, name in ((_INT8, "int8"), (_F16, "f16")):
            times_us = kernels.time_prepare_rows(
                n_values=n_values,
                n_tokens=n_tokens,
                format=layout,
                repetitions=work.repetitions,
            )
            yield {
                "kind": "rows",
                "name": f"{n_tokens} × {n_values}",
                "type": name,
                "tokens": n_tokens,
                "us": times_us,
            }


def _times_of_context(kernels: Any, context: Context, work: Work) -> Iterator[dict[str, Any]]:
    types, n_values = context.kv_types, context.n_head_kv * context.head_dim
    k, v = (
        _weights(np.random.default_rng(0), kind.name, n_values)[0] for kind in (types.k, types.v)
    )
    for number, form in enumerate(_FORMS):
        found = kernels.time_attention(
            k,
            v,
            k_type=_KV_TYPES.index(types.k.name),
            v_type=_KV_TYPES.index(types.v.name),
            form=number,
            n_head=context.n_head,
            n_head_kv=context.n_head_kv,
            head_dim=context.head_dim,
            depth=context.depth,
            n_tokens=context.n_tokens,
            prompt=context.prompt,
            cache_bytes=work.cache_bytes,
            repetitions=work.repetitions,
        )
        if found is not None:
            times_us, splits = found
            yield {
                "kind": "prompt" if context.prompt else "attention",
                "name": context.label,
                "type": context.kv_type,
                "form": form,
                "tokens": context.n_tokens,
                "depth": context.depth,
                "splits_used": splits,
                "bytes": context.kv_bytes,
                "flops": context.flops,
                "us": times_us,
            }


def _weights(random: np.random.Generator, name: str, n_values: int) -> Bytes:
    """Rows of weights whose bits are all random, but those of their scales in f16."""
    n_bytes = row_bytes(name, n_values)
    if name == "f16":
        return random.normal(size=(_PATTERN_ROWS, n_values)).astype(np.float16).view(np.uint8)
    blocks = random.integers(
        0, 256, (_PATTERN_ROWS, n_bytes // BLOCKS[name][1], BLOCKS[name][1]), np.uint8
    )
    for place in _SCALES[name]:
        blocks[:, :, place : place + 2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    return blocks.reshape(_PATTERN_ROWS, n_bytes)


def _activations(random: np.random.Generator, layout: int, n_values: int) -> Bytes:
    """A row as cuda/activation_rows.h lays it out."""
    values = random.normal(size=n_values)
    if layout == _F32:
        return values.astype(np.float32).view(np.uint8)
    if layout == _F16:
        end = np.array([1, 0, 0, 0], np.float32)
        return np.concatenate([values.astype(np.float16).view(np.uint8), end.view(np.uint8)])
    bytes_ = random.integers(-127, 128, n_values, np.int8)
    groups = np.zeros((n_values // _GROUP, 4), np.float32)
    groups[:, 0] = 0.01
    groups[:, 1:3] = 0.01 * bytes_.reshape(-1, 2, _GROUP // 2).sum(axis=2)
    return np.concatenate([bytes_.view(np.uint8), groups.reshape(-1).view(np.uint8)])


if __name__ == "__main__":
    main()
