"""The interface of llama-cpp-python's Llama over the engine."""

from __future__ import annotations

from orin_llm.llama.llama import Llama

__all__ = ["Llama"]
