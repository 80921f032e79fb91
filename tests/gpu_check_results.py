"""Steps of the GPU check as they are written down."""

from __future__ import annotations

from typing import Any

DECODE, PREFILL = "decode_tokens_per_s", "prefill_tokens_per_s"


def pair(
    on: float, ratio: float, figure: str = DECODE, kv_type: str = "f16", **workload: Any
) -> list[dict[str, Any]]:
    """Two results of a benchmark, as it prints them."""

    def result(speed: float, hooks: str, speedup: dict[str, Any]) -> dict[str, Any]:
        engine = {"name": "x", "hooks": {"rope": hooks}, "kv_type": kv_type, "chunk_size": 128}
        return {
            "label": "p16", "workload": workload, "figures": {figure: {"median": speed}},
            "speedup": speedup, "engine": engine, "latency": {"host_ms": {"p50": 0.01}},
        }  # fmt: skip

    return [result(on, "on", {}), result(on / ratio, "off", {figure: {"median": ratio}})]


def entry(*results: dict[str, Any], **found: Any) -> dict[str, Any]:
    return {"status": "done", "result": {"results": list(results), **found}}


def steps(ratio: float) -> dict[str, Any]:
    decode = entry(*pair(110.0, ratio, depth=0))
    return {"decode.8b": decode, "proxy.decode.8b": decode}
