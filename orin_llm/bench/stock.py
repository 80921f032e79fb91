"""The stock peer seen from our side: what it can be asked."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from orin_llm.bench.peer import Peer
from orin_llm.errors import DeviceUnavailable


class StockPeer(Peer):
    """A running stock llama.cpp. Use as a context manager: leaving it ends the process.

    Raises:
        DeviceUnavailable: the `[stock]` extra is not installed.
    """

    def __init__(
        self, model: str | Path, *, n_ctx: int, chunk_size: int = 512, threads: int = 1
    ) -> None:
        if importlib.util.find_spec("llama_cpp") is None:
            raise DeviceUnavailable(
                "stock llama.cpp is not installed: pip install 'orin-llm[stock]' "
                "(it builds llama-cpp-python, some minutes)"
            )
        settings = {"n_ctx": n_ctx, "chunk_size": chunk_size, "threads": threads}
        program = Path(__file__).with_name("stock_peer.py")
        super().__init__(program, {"path": str(model), **settings})

    def greedy(self, prompt: Sequence[int], n: int) -> tuple[list[int], list[float]]:
        """Ids of the n likeliest tokens after a prompt, and each one's logit gap to the second."""
        answer = self.ask({"do": "greedy", "prompt": list(prompt), "n": n})
        return answer["ids"], answer["margins"]

    def time(self, prompt: Sequence[int], n: int) -> tuple[float, float]:
        """Seconds for the prompt with its first token, and for the n - 1 tokens after it."""
        answer = self.ask({"do": "time", "prompt": list(prompt), "n": n})
        return answer["prefill_s"], answer["decode_s"]

    def tokenize(
        self, text: bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        """Stock's token ids of a text."""
        answer = self.ask(
            {
                "do": "tokenize",
                "text": text.decode("latin-1"),
                "add_special": add_special,
                "parse_special": parse_special,
            }
        )
        ids: list[int] = answer["ids"]
        return ids
