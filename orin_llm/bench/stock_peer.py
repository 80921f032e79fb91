"""Stock llama.cpp (the `[stock]` extra) as a child process that answers one JSON object per line.

It imports nothing of this package, so the two builds of llama.cpp never meet in one process.
Requests: {"do": "greedy", "prompt": [ids], "n": 64}, {"do": "tokenize", "text": ..., ...},
{"do": "top_logits", "tokens": [ids], "positions": [31, 63], "k": 16},
{"do": "serve", "prompts": [[ids], …], "max_tokens": [64, …], "depth": 0}. Every answer has "error"
or the fields named below.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import llama_cpp
import numpy as np

_KV_TYPES = {
    "f16": llama_cpp.GGML_TYPE_F16,
    "bf16": 30,  # GGML_TYPE_BF16, which llama_cpp does not name
    "q8_0": llama_cpp.GGML_TYPE_Q8_0,
    "q4_0": llama_cpp.GGML_TYPE_Q4_0,
}
_FLASH = {
    "auto": llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}
Row = tuple[int, int, int, bool]  # token, position, sequence, whether a token is drawn after it


class Peer:
    """One model in one stock context, driven through llama.cpp's C interface.

    Args are those of our engine, so that both run the same work: a context of `n_ctx` tokens for
    each of `n_seq` sequences, chunks of `chunk_size`, on the cores `cpus` (none: all). Sequences
    have KV buffers of their own, as llama-server makes them when it is told the number of slots: in
    one buffer for all, each looks through the cells of the others.
    """

    def __init__(
        self,
        path: str,
        n_ctx: int,
        chunk_size: int,
        threads: int,
        n_seq: int = 1,
        kv_type: str = "f16",
        flash_attention: str = "auto",
        cpus: Sequence[int] = (),
    ) -> None:
        if cpus:
            os.sched_setaffinity(0, cpus)  # of the threads that llama.cpp starts, too
        # A function of C that changes nothing: one of Python would take its time at every line of
        # the thousand that a load writes.
        silence = ctypes.cast(ctypes.CDLL(None).abs, llama_cpp.llama_log_callback)
        llama_cpp.llama_log_set(silence, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self._load(path)
        self.chunk_size = max(chunk_size, n_seq)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_ctx * n_seq
        params.n_seq_max = n_seq
        params.kv_unified = False
        k_type, _, v_type = kv_type.partition(":")
        params.type_k = _KV_TYPES[k_type]
        params.type_v = _KV_TYPES[v_type or k_type]
        params.flash_attn_type = _FLASH[flash_attention]
        params.n_batch = params.n_ubatch = self.chunk_size
        params.n_threads = params.n_threads_batch = threads
        params.no_perf = True
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError(f"stock llama.cpp makes no context of {n_seq} × {n_ctx} tokens")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.sampler = llama_cpp.llama_sampler_init_greedy()
        self.batch = llama_cpp.llama_batch_init(self.chunk_size, 0, 1)

    def _load(self, path: str) -> None:
        self.model = llama_cpp.llama_model_load_from_file(
            os.fsencode(path), llama_cpp.llama_model_default_params()
        )
        if not self.model:
            raise RuntimeError(f"stock llama.cpp cannot load {path}")

    def _forget(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), False)

    def _decode(self, rows: list[Row]) -> None:
        batch = self.batch
        batch.n_tokens = len(rows)
        for row, (token, position, sequence, draws) in enumerate(rows):
            batch.token[row] = token
            batch.pos[row] = position
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = sequence
            batch.logits[row] = draws
        status = llama_cpp.llama_decode(self.context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")

    def _step(self, rows: list[Row]) -> dict[int, int]:
        """Compute rows; the likeliest next token of every sequence that asked for one."""
        self._decode(rows)
        return {
            sequence: llama_cpp.llama_sampler_sample(self.sampler, self.context, row)
            for row, (_, _, sequence, draws) in enumerate(rows)
            if draws
        }

    def _prefill(
        self,
        prompts: list[list[int]],
        sequences: Sequence[int],
        begin: int = 0,
        end: int | None = None,
    ) -> Iterator[dict[int, int]]:
        """Compute tokens begin … end of all prompts, packed into chunks; what each chunk drew."""
        rows = [
            (token, position, sequence, position + 1 == len(prompt))
            for sequence, prompt in zip(sequences, prompts, strict=True)
            for position, token in enumerate(prompt[begin:end], begin)
        ]
        for start in range(0, len(rows), self.chunk_size):
            yield self._step(rows[start : start + self.chunk_size])

    def _logits(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        row = llama_cpp.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(row, shape=(self.n_vocab,))

    def greedy(self, prompt: list[int], n: int) -> dict[str, Any]:
        """{"ids": the n likeliest-token ids, "margins": logit gaps to the second likeliest}."""
        self._forget()
        for _ in self._prefill([prompt], [0]):
            pass
        ids: list[int] = []
        margins: list[float] = []
        for position in range(len(prompt), len(prompt) + n):
            logits = self._logits()
            token = int(np.argmax(logits))
            second, first = np.partition(logits, -2)[-2:]
            ids.append(token)
            margins.append(float(first - second))
            self._decode([(token, position, 0, True)])
        return {"ids": ids, "margins": margins}

    def top_logits(self, tokens: list[int], positions: list[int], k: int) -> dict[str, Any]:
        """{"rows": for each position the k likeliest next tokens}, from one chunk of all tokens.

        A row is {"ids", "logits", "log_sum_exp"}: the last of all logits, so that a logit less it
        is a log-probability.
        """
        self._forget()
        self._decode([(token, at, 0, at in positions) for at, token in enumerate(tokens)])
        rows = []
        for at in positions:
            row = llama_cpp.llama_get_logits_ith(self.context, at)
            logits = np.ctypeslib.as_array(row, shape=(self.n_vocab,)).astype(np.float64)
            ids = np.argsort(-logits, kind="stable")[:k]
            highest = logits.max()
            rows.append(
                {
                    "ids": ids.tolist(),
                    "logits": logits[ids].tolist(),
                    "log_sum_exp": float(highest + np.log(np.exp(logits - highest).sum())),
                }
            )
        return {"rows": rows}

    def serve(self, prompts: list[list[int]], max_tokens: list[int], depth: int) -> dict[str, Any]:
        """Answer all prompts: they in chunks, then one token of every unfinished answer a step.

        The first `depth` tokens of each prompt are computed before the clock starts.
        Returns, for each prompt, {"ids": its answer, "token_ms": when each token was there}, and
        "started_ms", when the clock started: all of `time.monotonic()`, whose zero is the system's.
        """
        # Of sequences with buffers of their own, llama.cpp joins only consecutive ids in one graph:
        # the answer that ends first has the highest.
        longest_first = sorted(range(len(prompts)), key=lambda i: -max_tokens[i])
        sequences = sorted(range(len(prompts)), key=longest_first.__getitem__)
        self._forget()
        for _ in self._prefill(prompts, sequences, 0, depth):
            pass
        ids: list[list[int]] = [[] for _ in prompts]
        token_ms: list[list[float]] = [[] for _ in prompts]
        started_ms = time.monotonic() * 1e3

        def take(drawn: dict[int, int]) -> None:
            now_ms = time.monotonic() * 1e3
            for sequence, token in drawn.items():
                ids[longest_first[sequence]].append(token)
                token_ms[longest_first[sequence]].append(now_ms)

        for drawn in self._prefill(prompts, sequences, depth):
            take(drawn)
        while rows := [
            (ids[i][-1], len(prompts[i]) + len(ids[i]) - 1, sequence, True)
            for sequence, i in enumerate(longest_first)
            if len(ids[i]) < max_tokens[i]
        ]:
            take(self._step(rows))
        return {"ids": ids, "token_ms": token_ms, "started_ms": started_ms}

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
    try:
        peer = Peer(**json.loads(sys.stdin.readline()))
    except Exception as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
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
