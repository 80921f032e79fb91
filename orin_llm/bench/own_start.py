"""One start of our engine as a child process: from nothing to the first token, timed.

Its settings are `path` and `config`, the fields of an EngineConfig; docs/bench.md names what the
answer has.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from orin_llm.bench.start_child import serve
from orin_llm.engine import Engine, EngineConfig, Request, SamplingParams
from orin_llm.engine.progress import LoadProgress
from orin_llm.errors import OrinError
from orin_llm.host.memory import read_process_memory

_GREEDY = SamplingParams(temperature=0)


class Peak:
    """What a load takes at most: looked at when the weights are there, before there is more."""

    def __init__(self) -> None:
        self._before = read_process_memory().resident
        self.bytes = 0

    def __call__(self, load: LoadProgress) -> None:
        if load.bytes_done >= load.bytes_total:
            self.bytes = read_process_memory().peak - self._before


def start(path: str, config: EngineConfig, prompt: Sequence[int]) -> dict[str, Any]:
    """Make an engine, and answer a prompt with one token, twice."""
    peak = Peak()
    began = time.perf_counter()
    with Engine(path, config, peak) as engine:
        made = time.perf_counter()
        _answer(engine, prompt)
        first = time.perf_counter()
        engine.forget()
        forgot = time.perf_counter()
        _answer(engine, prompt)
        again = time.perf_counter()
        load = engine.load
        return {
            "open_ms": load.open_ms,
            "read_ms": load.read_ms,
            "upload_ms": load.upload_ms,
            "weights_ms": load.weights_ms,
            "warmup_ms": (made - began) * 1e3 - load.weights_ms,
            "first_token_ms": (first - made) * 1e3,
            "ttft_ms": (first - began) * 1e3,
            "again_ms": (again - forgot) * 1e3,
            "peak_bytes": peak.bytes,
            "direct_bytes": load.direct_bytes,
            "device": engine.backend["device"],
        }


def _answer(engine: Engine, prompt: Sequence[int]) -> None:
    for _ in engine.complete(Request(prompt, _GREEDY, max_tokens=1, ignore_eos=True)):
        pass


def main() -> None:
    """Say when everything is imported, and start when told."""
    serve(
        lambda settings, prompt: start(
            settings["path"], EngineConfig(**settings["config"]), prompt
        ),
        OrinError,
    )


if __name__ == "__main__":
    main()
