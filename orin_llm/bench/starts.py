"""Who can start from nothing: our engine and stock llama.cpp, each time in a new process.

And the disk, which only reads the file: no start can be faster.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from orin_llm.bench.peer import Peer
from orin_llm.bench.runner import hooks_text
from orin_llm.bench.stock import require_stock
from orin_llm.engine import EngineConfig
from orin_llm.host import page_cache
from orin_llm.host.cpu_set import parse_cores

Cache = Literal["cold", "warm"]
CACHES: tuple[Cache, ...] = ("cold", "warm")
Figures = dict[str, float]  # docs/bench.md names them


@dataclass(frozen=True)
class Start:
    """What is started: a prompt on a model whose files are in the page cache, or not.

    Attributes:
        files: all parts of the model, the first first.
        weights_bytes: of all tensors.
    """

    files: Sequence[Path]
    weights_bytes: int
    cache: Cache
    prompt: Sequence[int]

    def prepare(self) -> None:
        """Put the page cache into the state that is wanted; OrinError where that cannot be."""
        for file in self.files:
            if self.cache == "cold":
                page_cache.drop(file)
            else:
                page_cache.fill(file)


class OwnStart:
    """Our engine."""

    def __init__(self, model: Path, config: EngineConfig, threads: int) -> None:
        hooks = hooks_text(config.hooks)
        self._name = f"orin-llm {hooks}"
        self._model = str(model)
        self._config: dict[str, object] = {
            **asdict(config),
            "hooks": hooks,
            "kernels": dict(config.kernels.chosen),
            "threads": threads,
            "publish": False,
        }
        self.device = ""  # known after the first start

    @property
    def settings(self) -> dict[str, object]:
        """`name`, and the configuration."""
        return {"name": self._name, **self._config}

    def run(self, start: Start) -> Figures:
        """Start once."""
        settings = {"path": self._model, "config": self._config}
        answer = _start("orin_llm.bench.own_start", settings, start, "engine")
        self.device = answer.pop("device")
        figures: Figures = answer
        if figures["direct_bytes"] > 0:  # else the page cache was filled before, or meanwhile
            read_s = (figures["read_ms"] + figures["upload_ms"]) / 1e3
            figures["read_bytes_per_s"] = start.weights_bytes / read_s
        return figures


class StockStart:
    """Stock llama.cpp with the same context, chunks, threads and type of KV cache.

    Raises DeviceUnavailable where it is not installed.
    """

    def __init__(self, model: Path, config: EngineConfig, threads: int) -> None:
        require_stock()
        shared = {
            "threads": threads,
            "chunk_size": config.chunk_size,
            "kv_type": config.kv_type,
            "flash_attention": config.flash_attention,
            "n_ctx": config.n_ctx,
        }
        cpus = sorted(parse_cores(config.cpus))
        self._settings = {"path": str(model), **shared, "cpus": cpus}
        self.settings: dict[str, object] = {"name": "stock", **shared, "cpus": config.cpus}

    def run(self, start: Start) -> Figures:
        """Start once."""
        figures: Figures = _start("orin_llm.bench.stock_start", self._settings, start, "stock peer")
        return figures


class DiskRead:
    """The disk: the files read past the page cache, from end to end."""

    @property
    def settings(self) -> dict[str, object]:
        """`name`."""
        return {"name": "disk, O_DIRECT"}

    def run(self, start: Start) -> Figures:
        """Read all files once; nothing where their file system cannot do so."""
        start.prepare()
        rate = page_cache.direct_bytes_per_s(start.files)
        return {} if rate is None else {"read_bytes_per_s": rate}


def _start(module: str, settings: dict[str, Any], start: Start, name: str) -> dict[str, Any]:
    """A start in a new process, whose imports are over before the page cache is prepared."""
    began = time.perf_counter()
    with Peer(["-m", module], settings, name) as peer:
        process_ms = (time.perf_counter() - began) * 1e3
        start.prepare()
        answer = peer.ask({"prompt": list(start.prompt)})
    return {
        "process_ms": process_ms,
        **answer,
        "load_bytes_per_s": start.weights_bytes / answer["weights_ms"] * 1e3,
        "cached_after_bytes": sum(map(page_cache.cached_bytes, start.files)),
    }
