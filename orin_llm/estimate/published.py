"""Results that others published for the AGX Orin, and the part of the board's rates they imply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orin_llm.device.modules import AGX_ORIN_32GB, AGX_ORIN_64GB, Module
from orin_llm.estimate.roofline import Rates
from orin_llm.estimate.shaped_header import Bits, shaped_header
from orin_llm.estimate.target import chosen_modes, shipped_target
from orin_llm.estimate.work import decode_step, prefill_steps
from orin_llm.models.shapes import SHAPES, ModelShape

_LLAMA_2_7B = ModelShape("Llama 2 7B", 32, 4096, 32, 32, 11008, 4096, 32000, tied_embeddings=False)
_QWEN3_8B = ModelShape("Qwen3 8B", 36, 4096, 32, 8, 12288, 40960, 151936, tied_embeddings=False)
_QWEN3_2B = ModelShape("Qwen3 1.7B", 28, 2048, 16, 8, 6144, 40960, 151936, tied_embeddings=True)
_LLAMA_2_13B = ModelShape(
    "Llama 2 13B", 40, 5120, 40, 40, 13824, 4096, 32000, tied_embeddings=False
)
_LLAMA_2_70B = ModelShape("Llama 2 70B", 80, 8192, 64, 8, 28672, 4096, 32000, tied_embeddings=False)
_LLAMA_3_8B, _LLAMA_3B, _LLAMA_1B = (
    SHAPES[name] for name in ("llama-3-8b", "llama-3.2-3b", "llama-3.2-1b")
)
# Bits per weight as these formats store them: one f16 scale for a column, 128 or 32 weights; the
# output matrix stays f16 where the toolkit does not quantize it. Q4_K_M is the 8B shape's mean.
_F16 = Bits(16, 16)
_INT4 = Bits(4, 16)
_GROUPS_OF_128 = Bits(4.125, 16)
_MLC_FT = Bits(4, 4)
_GROUPS_OF_32 = Bits(4.5, 4.5)
_Q4_0 = Bits(4.5, 6.5625)
_Q4_K_M = Bits(4.80, 6.5625)


@dataclass(frozen=True)
class Published:
    """One published result, on an AGX Orin 64GB at MAXN where it says nothing else.

    Attributes:
        program: engine and quantization.
        source: whose, and under which conditions.
        decode_tokens_per_s: None where only prefill is told.
        ttft_ms: of `prompt_tokens`; None where it is not told.
        prompt_tokens, answer_tokens: decoding is counted at the middle of the answer.
    """

    program: str
    shape: ModelShape
    bits: Bits
    source: str
    decode_tokens_per_s: float
    ttft_ms: float | None = None
    prompt_tokens: int = 0
    answer_tokens: int = 0
    module: Module = AGX_ORIN_64GB
    mode: str = "MAXN"


_TENSORRT = "NVIDIA's README4Jetson, v0.12: JetPack 6.1, jetson_clocks"
_EDGE = "NVIDIA's performance page, 0.10: JetPack 7.2; mode not stated"
_MLC = "jetson-containers, mlc docs: JetPack 6"
_MLC_1781 = "mlc-llm issue 1781; mode not stated"
_MLC_30W = "jetson-containers issue 532: the default mode"
_EMBEDL = "embedl, Edge-Inference-Benchmarks; mode not stated"
_MINICPM = "MiniCPM issue 331: jetson_clocks; a round figure"
_HOLOHUB = "holohub issue 170: IGX Orin, mode and 4-bit type not stated, taken to be Q4_0"
_NIXOS = "agx-orin-dev-kit: jetpack-nixos, flash attention; its clocks are in doubt"
_TESTIN = "Testin_Jetson_AGX_ORIN: JetPack 6.2.1; mode not stated"
_COPILOT = "jetson-copilot issue 17; below an Orin Nano, so its mode is in doubt"
# Where the mode is not stated it is taken to be MAXN.
PUBLISHED = (
    Published("TensorRT-LLM INT4", _LLAMA_3_8B, _INT4, _TENSORRT, 35.9, 91, 128, 128),
    Published("TensorRT-LLM INT4", _LLAMA_3_8B, _INT4, _TENSORRT, 35.2, 260, 512, 512),
    Published("TensorRT-LLM INT4", _LLAMA_3_8B, _INT4, _TENSORRT, 34.7, 582, 1024, 512),
    Published("TensorRT-LLM GPTQ", _LLAMA_3_8B, _GROUPS_OF_128, _TENSORRT, 34.5, 105, 128, 128),
    Published("TensorRT-LLM GPTQ", _LLAMA_3_8B, _GROUPS_OF_128, _TENSORRT, 33.7, 292, 512, 512),
    Published("TensorRT-LLM GPTQ", _LLAMA_3_8B, _GROUPS_OF_128, _TENSORRT, 33.3, 337, 1024, 512),
    Published("Edge-LLM AWQ", _QWEN3_8B, _GROUPS_OF_128, _EDGE, 30.6, 1384, 2048),
    Published("Edge-LLM AWQ", _QWEN3_2B, _GROUPS_OF_128, _EDGE, 89.5, 308, 2048),
    Published("MLC q4f16_ft", _LLAMA_2_7B, _MLC_FT, _MLC, 46.9, None, 16, 128),
    Published("MLC q4f16_ft", _LLAMA_2_7B, _MLC_FT, _MLC_1781, 45.0),
    Published("MLC q4f16_1", _LLAMA_2_7B, _GROUPS_OF_32, _MLC_1781, 36.0),
    Published("MLC", _LLAMA_2_7B, _MLC_FT, _MLC_30W, 19.3, module=AGX_ORIN_32GB, mode="MODE_30W"),
    Published("vLLM f16", _LLAMA_3B, _F16, _EMBEDL, 25.6),
    Published("vLLM W4A16", _LLAMA_3B, _GROUPS_OF_128, _EMBEDL, 61.2),
    Published("vLLM f16", _LLAMA_1B, _F16, _EMBEDL, 65.0),
    Published("llama.cpp Q4_K_M", _QWEN3_8B, _Q4_K_M, _MINICPM, 25.0),
    Published("llama.cpp 4-bit", _LLAMA_2_7B, _Q4_0, _HOLOHUB, 22.5),
    Published("llama.cpp 4-bit", _LLAMA_2_13B, _Q4_0, _HOLOHUB, 13.3),
    Published("llama.cpp 4-bit", _LLAMA_2_70B, _Q4_0, _HOLOHUB, 3.0),
    Published("llama.cpp Q4_K_M", _LLAMA_1B, _Q4_K_M, _NIXOS, 34.8, 512 / 1.554, 512),
    Published("Ollama Q4_K_M", _LLAMA_3B, _Q4_K_M, _TESTIN, 44.8),
    Published("Ollama 4-bit", _LLAMA_3_8B, _Q4_0, _COPILOT, 14.0),
)


@dataclass(frozen=True)
class Implied:
    """What a result comes to.

    Attributes:
        bandwidth: part of the memory's bandwidth, at decode.
        bytes_per_clock: of weights and KV cache, for each multiprocessor, at decode.
        compute: part of the dense f16 products, in prefill; None where no TTFT was told.
    """

    published: Published
    bandwidth: float
    bytes_per_clock: float
    compute: float | None

    def to_json(self) -> dict[str, Any]:
        """The result and what it comes to."""
        result = self.published
        return {
            "program": result.program,
            "model": result.shape.title,
            "board": result.module.name,
            "mode": result.mode,
            "source": result.source,
            "prompt_tokens": result.prompt_tokens,
            "ttft_ms": result.ttft_ms,
            "decode_tokens_per_s": result.decode_tokens_per_s,
            "bandwidth": self.bandwidth,
            "bytes_per_clock": self.bytes_per_clock,
            "compute": self.compute,
        }


def implied(result: Published) -> Implied:
    """The efficiencies that explain a result: its work over its time over the board's rates."""
    header = shaped_header(result.shape, result.bits)
    rates = _rates(result)
    middle = result.prompt_tokens + result.answer_tokens // 2 + 1
    bytes_per_s = decode_step(header, middle, "f16").bytes * result.decode_tokens_per_s
    compute = None
    if result.ttft_ms:
        steps = prefill_steps(header, result.prompt_tokens, result.prompt_tokens, "f16")
        flops_per_s = 1e3 * sum(work.flops for work in steps) / result.ttft_ms
        compute = flops_per_s / (rates.tflops * 1e12)
    return Implied(
        published=result,
        bandwidth=bytes_per_s / (rates.bandwidth_gb_s * 1e9),
        bytes_per_clock=bytes_per_s / rates.sm_clocks_per_s,
        compute=compute,
    )


def _rates(result: Published) -> Rates:
    (rates,) = chosen_modes(shipped_target(result.module).modes, result.mode)
    return rates
