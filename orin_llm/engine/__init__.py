"""The engine: a loaded model that completes prompts."""

from orin_llm.engine.completion import Completion
from orin_llm.engine.config import EngineConfig, Hooks, SamplingParams
from orin_llm.engine.engine import Engine
from orin_llm.engine.kernels import Kernels
from orin_llm.engine.progress import LoadProgress
from orin_llm.engine.request import Request
from orin_llm.engine.result import Chunk, KvStats, Result, Timings, TokenLogprobs
from orin_llm.engine.step_record import StepRecord

__all__ = [
    "Chunk",
    "Completion",
    "Engine",
    "EngineConfig",
    "Hooks",
    "Kernels",
    "KvStats",
    "LoadProgress",
    "Request",
    "Result",
    "SamplingParams",
    "StepRecord",
    "Timings",
    "TokenLogprobs",
]
