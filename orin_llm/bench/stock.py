"""The stock peer seen from our side: what it can be asked."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orin_llm.bench.peer import Peer
from orin_llm.bench.records import RequestRecord, Run
from orin_llm.bench.watch import SensorLog
from orin_llm.bench.workload import Workload
from orin_llm.device.sampler import Sampler
from orin_llm.errors import DeviceUnavailable
from orin_llm.host.cpu_set import cores_text


def require_stock() -> None:
    """Raise DeviceUnavailable where the `[stock]` extra is not installed."""
    if importlib.util.find_spec("llama_cpp") is None:
        raise DeviceUnavailable(
            "stock llama.cpp is not installed: pip install '.[stock]' in the source folder, or "
            "scripts/build.sh stock (it builds llama-cpp-python, some minutes)"
        )


class StockPeer(Peer):
    """A running stock llama.cpp. Use as a context manager: leaving it ends the process.

    Args:
        model: a GGUF file.
        n_ctx: tokens of each of `n_seq` sequences.
        cpus: the cores that it may use; none: all.
        sampler: reads the sensors that every run tells of.

    Raises:
        DeviceUnavailable: the `[stock]` extra is not installed.
        OrinError: it cannot load the model.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        n_ctx: int,
        chunk_size: int = 512,
        threads: int = 1,
        n_seq: int = 1,
        kv_type: str = "f16",
        flash_attention: str = "auto",
        cpus: Sequence[int] = (),
        sampler: Sampler | None = None,
    ) -> None:
        require_stock()
        settings = {
            "threads": threads,
            "chunk_size": chunk_size,
            "kv_type": kv_type,
            "flash_attention": flash_attention,
            "cpus": list(cpus),
            "n_ctx": n_ctx,
            "n_seq": n_seq,
        }
        program = Path(__file__).with_name("stock_peer.py")
        super().__init__([str(program)], {"path": str(model), **settings})
        self.settings: dict[str, object] = {"name": "stock", **settings, "cpus": cores_text(cpus)}
        self._sampler = sampler

    def greedy(self, prompt: Sequence[int], n: int) -> tuple[list[int], list[float]]:
        """Ids of the n likeliest tokens after a prompt, and each one's logit gap to the second."""
        answer = self.ask({"do": "greedy", "prompt": list(prompt), "n": n})
        return answer["ids"], answer["margins"]

    def top_logits(
        self, tokens: Sequence[int], positions: Sequence[int], k: int
    ) -> list[dict[str, Any]]:
        """The k likeliest tokens after each position: "ids", "logits", and the "log_sum_exp"."""
        request = {"tokens": list(tokens), "positions": list(positions), "k": k}
        rows: list[dict[str, Any]] = self.ask({"do": "top_logits", **request})["rows"]
        return rows

    def serve(
        self, prompts: Sequence[Sequence[int]], max_tokens: Sequence[int], *, depth: int = 0
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Greedy answers of exactly these lengths: prompts in chunks, then batched decode.

        At most `n_seq` prompts; the first `depth` tokens of each are computed before the clock
        starts. Returns the ids of each answer, and when each of them was there, in milliseconds of
        the clock of `time.monotonic()`.
        """
        answer = self._serve(prompts, max_tokens, depth)
        return answer["ids"], answer["token_ms"]

    def _serve(
        self, prompts: Sequence[Sequence[int]], max_tokens: Sequence[int], depth: int
    ) -> dict[str, Any]:
        return self.ask(
            {
                "do": "serve",
                "prompts": [list(prompt) for prompt in prompts],
                "max_tokens": list(max_tokens),
                "depth": depth,
            }
        )

    def run(self, workload: Workload) -> Run:
        """Answer one wave of at most `n_seq` requests that come at once."""
        (wave,) = workload.waves
        submissions = wave.submissions
        sensors = SensorLog(self._sampler)
        answer = self._serve(
            [s.prompt for s in submissions],
            [s.max_tokens for s in submissions],
            workload.depth,
        )
        readings = sensors.end()
        return Run(
            tuple(
                RequestRecord(
                    role=submission.role,
                    submitted_ms=answer["started_ms"],
                    token_ms=tuple(times),
                    finished_ms=times[-1],
                    prompt_tokens=len(submission.prompt),
                    cached_tokens=workload.depth,
                )
                for submission, times in zip(submissions, answer["token_ms"], strict=True)
            ),
            readings=readings,
        )

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
