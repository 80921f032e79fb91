"""Stock llama.cpp (the `[stock]` extra) as a child process that answers one JSON object per line.

It imports nothing of this package, so the two builds of llama.cpp never meet in one process.
Requests: {"do": "greedy", "prompt": [ids], "n": 64}, {"do": "tokenize", "text": ..., ...},
{"do": "time", "prompt": [ids], "n": 64}. Every answer has "error" or the fields named below.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Any

import llama_cpp
import numpy as np


class Peer:
    """One model in one stock context, driven through llama.cpp's C interface.

    Args are those of our engine, so that both run the same work: flash attention is left to
    llama.cpp's own choice, one sequence, chunks of `chunk_size`.
    """

    def __init__(self, path: str, n_ctx: int, chunk_size: int, threads: int) -> None:
        self._log = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self._log, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            path.encode(), llama_cpp.llama_model_default_params()
        )
        if not self.model:
            raise RuntimeError(f"stock llama.cpp cannot load {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_batch = params.n_ubatch = chunk_size
        params.n_threads = params.n_threads_batch = threads
        params.no_perf = True
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.chunk_size = chunk_size
        self.sampler = llama_cpp.llama_sampler_init_greedy()

    def _forget(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), False)

    def _decode(self, tokens: list[int]) -> None:
        ids = (llama_cpp.llama_token * len(tokens))(*tokens)
        batch = llama_cpp.llama_batch_get_one(ids, len(tokens))
        status = llama_cpp.llama_decode(self.context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")

    def _prefill(self, prompt: list[int]) -> None:
        for start in range(0, len(prompt), self.chunk_size):
            self._decode(prompt[start : start + self.chunk_size])

    def _logits(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        row = llama_cpp.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(row, shape=(self.n_vocab,))

    def greedy(self, prompt: list[int], n: int) -> dict[str, Any]:
        """{"ids": the n likeliest-token ids, "margins": logit gaps to the second likeliest}."""
        self._forget()
        self._prefill(prompt)
        ids: list[int] = []
        margins: list[float] = []
        for _ in range(n):
            logits = self._logits()
            token = int(np.argmax(logits))
            second, first = np.partition(logits, -2)[-2:]
            ids.append(token)
            margins.append(float(first - second))
            self._decode([token])
        return {"ids": ids, "margins": margins}

    def time(self, prompt: list[int], n: int) -> dict[str, Any]:
        """{"prefill_s", "decode_s"}: the prompt and its first token; then n - 1 more tokens."""
        self._forget()
        started = time.perf_counter()
        self._prefill(prompt)
        token = llama_cpp.llama_sampler_sample(self.sampler, self.context, -1)
        first = time.perf_counter()
        for _ in range(n - 1):
            self._decode([token])
            token = llama_cpp.llama_sampler_sample(self.sampler, self.context, -1)
        return {"prefill_s": first - started, "decode_s": time.perf_counter() - first}

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> dict[str, Any]:
        """{"ids"}. The text is Latin-1: one character is one byte of what is tokenized."""
        data = text.encode("latin-1")
        ids = (llama_cpp.llama_token * (len(data) + 2))()
        count = llama_cpp.llama_tokenize(
            self.vocab, data, len(data), ids, len(ids), add_special, parse_special
        )
        return {"ids": list(ids[:count])}


def main() -> None:
    """Serve requests on stdin: the first line holds the arguments of Peer."""
    peer = Peer(**json.loads(sys.stdin.readline()))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(peer, request.pop("do"))(**request)
        except Exception as error:
            answer = {"error": repr(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
