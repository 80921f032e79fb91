"""What an engine says of where and how it computes."""

from __future__ import annotations

from typing import Any, Protocol

from orin_llm import _native
from orin_llm.engine.config import HOOK_NAMES, EngineConfig


class Described(Protocol):
    """An engine, or what computes as one does."""

    @property
    def config(self) -> EngineConfig: ...
    @property
    def model(self) -> _native.Model: ...
    @property
    def runner(self) -> _native.Runner | _native.WindowRunner: ...
    @property
    def is_paged(self) -> bool: ...


def describe_backend(engine: Described) -> dict[str, Any]:
    """`Engine.backend`: plain values, for machine-readable output."""
    runner = engine.runner
    backend: dict[str, Any] = {
        "device": engine.model.device,
        "hooks": _hooks(engine),
        "kv_type": engine.config.kv_type,
    }
    if engine.is_paged:
        backend["kv_memory"] = runner.kv_memory
    if runner.kernels:
        report = runner.matrix_report()
        backend["kernels"] = runner.kernels
        if backend["hooks"]["matrices"] != "off":
            backend["products"] = {
                "ours": report["n_served"],
                "llama.cpp": report["n_stock"],
                "cublas": report["n_cublas"],
            }
    notes = _notes(engine, backend["hooks"])
    if notes:
        backend["note"] = "; ".join(notes)
    return backend


def _hooks(engine: Described) -> dict[str, str]:
    asked, available = engine.config.hooks.enabled, engine.runner.hooks

    def state(name: str) -> str:
        if name not in asked:
            return "off"
        return "on" if name in available else "unavailable"

    return {name: state(name) for name in HOOK_NAMES}


def _notes(engine: Described, hooks: dict[str, str]) -> list[str]:
    runner = engine.runner
    notes = []
    if runner.refusal:
        notes.append(f"the KV cache is not paged: {runner.refusal}")
    if engine.config.kernels.chosen and not runner.kernels:
        notes.append("choices of kernels change nothing, as no GPU computes in pages")
    if engine.is_paged and (flash := _flash(engine)):
        notes.append(flash)
    if engine.is_paged and engine.model.device != "cpu" and hooks["sampling"] == "unavailable":
        notes.append("tokens are drawn on the CPU, as the GPU cannot look them up in this model")
    layers, products = runner.rope_store_report(), runner.matrix_report()
    notes += _left(layers["n_layers"], layers, "layers keep llama.cpp's RoPE and stores")
    notes += _left(products["n_served"], products, "products keep llama.cpp's kernels")
    return notes


def _flash(engine: Described) -> str:
    """What came of `flash_attention` where attention reads pages."""
    asked = engine.config.flash_attention
    if asked == "off" and engine.model.device != "cpu":
        return "prompts' attention reads the pages, as flash attention is off"
    return f"flash attention {asked} changes nothing in pages" if asked != "auto" else ""


def _left(n_ours: int, report: dict[str, Any], what: str) -> list[str]:
    n_stock = report["n_stock"]
    return [f"{n_stock} of {n_ours + n_stock} {what} ({report['reason']})"] if n_stock else []
