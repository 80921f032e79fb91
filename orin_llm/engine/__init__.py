"""The engine: a loaded model that completes prompts."""

from orin_llm.engine.completion import Completion, Request
from orin_llm.engine.config import EngineConfig, Hooks, SamplingParams
from orin_llm.engine.engine import Engine
from orin_llm.engine.progress import LoadProgress
from orin_llm.engine.result import Chunk, KvStats, Result, Timings, TokenLogprobs

__all__ = [
    "Chunk",
    "Completion",
    "Engine",
    "EngineConfig",
    "Hooks",
    "KvStats",
    "LoadProgress",
    "Request",
    "Result",
    "SamplingParams",
    "Timings",
    "TokenLogprobs",
]
