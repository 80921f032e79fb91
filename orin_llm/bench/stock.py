"""The stock peer seen from our side: starts its process and asks it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from orin_llm.errors import DeviceUnavailable, OrinError


class StockPeer:
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
        program = Path(__file__).with_name("stock_peer.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._ask(
            {"path": str(model), "n_ctx": n_ctx, "chunk_size": chunk_size, "threads": threads}
        )

    def greedy(self, prompt: Sequence[int], n: int) -> tuple[list[int], list[float]]:
        """Ids of the n likeliest tokens after a prompt, and each one's logit gap to the second."""
        answer = self._ask({"do": "greedy", "prompt": list(prompt), "n": n})
        return answer["ids"], answer["margins"]

    def time(self, prompt: Sequence[int], n: int) -> tuple[float, float]:
        """Seconds for the prompt with its first token, and for the n - 1 tokens after it."""
        answer = self._ask({"do": "time", "prompt": list(prompt), "n": n})
        return answer["prefill_s"], answer["decode_s"]

    def tokenize(
        self, text: bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        """Stock's token ids of a text."""
        answer = self._ask(
            {
                "do": "tokenize",
                "text": text.decode("latin-1"),
                "add_special": add_special,
                "parse_special": parse_special,
            }
        )
        ids: list[int] = answer["ids"]
        return ids

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # both are pipes, see above
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise OrinError(f"the stock peer ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise OrinError(f"the stock peer failed: {answer['error']}")
        return answer

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate()

    def __enter__(self) -> StockPeer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
