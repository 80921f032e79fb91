"""Stock llama.cpp in a process of its own, and NumPy summing up what goes into its products.

Run as a program it is that process. It reads ggml's tensors through their C layout.
"""

from __future__ import annotations

import base64
import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from orin_llm.bench.peer import Peer

MUL_MAT, MUL_MAT_ID = 29, 30  # of ggml_op


class StockImatrix(Peer):
    """{tensor: (sums, counts)} over windows of tokens, each from an empty cache."""

    def __init__(self, path: Path) -> None:
        super().__init__([__file__], {"model_path": str(path)})

    def sums(self, windows: list[list[int]]) -> dict[str, tuple[Any, Any]]:
        found = self.ask({"windows": windows})["result"]
        return {name: (_decoded(sums), np.array(counts)) for name, (sums, counts) in found.items()}


def _decoded(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), np.float64)


class Tensor(ctypes.Structure):
    """ggml_tensor."""


Tensor._fields_ = [
    ("type", ctypes.c_int),
    ("buffer", ctypes.c_void_p),
    ("ne", ctypes.c_int64 * 4),
    ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int),
    ("op_params", ctypes.c_int32 * 16),
    ("flags", ctypes.c_int32),
    ("src", ctypes.POINTER(Tensor) * 10),
    ("view_src", ctypes.c_void_p),
    ("view_offs", ctypes.c_size_t),
    ("data", ctypes.c_void_p),
    ("name", ctypes.c_char * 64),
]


def values(tensor: Tensor, dtype: Any) -> Any:
    """The elements, the slowest dimension first."""
    shape, strides = list(tensor.ne)[::-1], list(tensor.nb)[::-1]
    n = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + 4
    raw = np.frombuffer(ctypes.string_at(tensor.data, n), np.uint8)
    return np.lib.stride_tricks.as_strided(raw.view(dtype), shape, strides)


def main() -> None:
    import llama_cpp as stock

    found: dict[str, tuple[Any, Any]] = {}

    @stock.ggml_backend_sched_eval_callback
    def on_node(address: int, ask: bool, _data: int) -> bool:
        node = Tensor.from_address(address)
        if node.op not in (MUL_MAT, MUL_MAT_ID):
            return False
        weights, inputs = node.src[0].contents, node.src[1].contents
        name = weights.name.decode()
        if not name.startswith("blk."):
            return False
        if not ask:
            n_experts = int(weights.ne[2])
            squares = values(inputs, np.float32)[0].astype(np.float64) ** 2
            if node.op == MUL_MAT:
                sums, counts = squares.sum((0, 1)), [inputs.ne[1]]
            else:
                chosen = values(node.src[2].contents, np.int32)[0, 0]  # [tokens, used]
                sums, counts = np.zeros((n_experts, inputs.ne[0])), np.zeros(n_experts, int)
                for token, experts in enumerate(chosen):
                    for slot, expert in enumerate(experts):
                        sums[expert] += squares[token, slot % inputs.ne[1]]
                        counts[expert] += 1
            old = found.get(name, (0, 0))
            found[name] = (old[0] + sums, old[1] + np.array(counts))
        return True

    stock.llama_backend_init()
    path = json.loads(sys.stdin.readline())["model_path"].encode()
    model_params = stock.llama_model_default_params()
    model_params.n_gpu_layers = 0
    model = stock.llama_model_load_from_file(path, model_params)
    params = stock.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 512
    params.cb_eval = on_node
    context = stock.llama_init_from_model(model, params)
    print(json.dumps({"result": None}), flush=True)
    for line in sys.stdin:
        found.clear()
        for window in json.loads(line)["windows"]:
            stock.llama_memory_clear(stock.llama_get_memory(context), True)
            batch = stock.llama_batch_init(len(window), 0, 1)
            for i, token in enumerate(window):
                batch.token[i], batch.pos[i], batch.logits[i] = token, i, 1
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.n_tokens = len(window)
            if stock.llama_decode(context, batch) != 0:
                raise RuntimeError("llama_decode failed")
            stock.llama_batch_free(batch)
        result = {
            name: (base64.b64encode(sums.tobytes()).decode(), counts.tolist())
            for name, (sums, counts) in found.items()
        }
        print(json.dumps({"result": result}), flush=True)


if __name__ == "__main__":
    main()
