"""One start of stock llama.cpp as a child process: from nothing to the first token, timed.

As stock_peer.py it loads nothing native of this package. Its settings are the arguments of its
Peer; docs/bench.md names what the answer has.
"""

from __future__ import annotations

import time
from typing import Any

from orin_llm.bench.start_child import serve
from orin_llm.bench.stock_peer import Peer
from orin_llm.host.memory import read_process_memory


class TimedPeer(Peer):
    """A stock llama.cpp that remembers when its weights were there, and what they had taken."""

    def _load(self, path: str) -> None:
        before = read_process_memory().resident
        super()._load(path)
        self.loaded = time.perf_counter()
        self.peak_bytes = read_process_memory().peak - before


def start(settings: dict[str, Any], prompt: list[int]) -> dict[str, float]:
    """Load, make a context, and answer a prompt with one token, twice."""
    began = time.perf_counter()
    peer = TimedPeer(**settings)
    made = time.perf_counter()
    peer.serve([prompt], [1], 0)
    first = time.perf_counter()
    peer.serve([prompt], [1], 0)
    again = time.perf_counter()
    return {
        "weights_ms": (peer.loaded - began) * 1e3,
        "warmup_ms": (made - peer.loaded) * 1e3,
        "first_token_ms": (first - made) * 1e3,
        "ttft_ms": (first - began) * 1e3,
        "again_ms": (again - first) * 1e3,
        "peak_bytes": peer.peak_bytes,
    }


def main() -> None:
    """Say when everything is imported, and start when told."""
    serve(start, Exception)


if __name__ == "__main__":
    main()
