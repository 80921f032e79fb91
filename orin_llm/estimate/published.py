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
_LLAMA_3_8B, _LLAMA_3B, _LLAMA_1B = (
    SHAPES[name] for name in ("llama-3-8b", "llama-3.2-3b", "llama-3.2-1b")
)
# Bits per weight as these formats store them: one f16 scale for a column, 128 or 32 weights; the
# output matrix stays f16 where the toolkit does not quantize it. Q4_K_M is the 8B shape's mean.
_F16 = Bits(16, 16)
_INT4 = Bits(4, 16)
_GROUPS_OF_128 = Bits(4.125, 16)
_MLC_FT = Bits(4, 4)
_Q4_K_M = Bits(4.80, 6.5625)


@dataclass(frozen=True)
class Published:
    """One published result.

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


_TENSORRT = "NVIDIA README4Jetson, v0.12: MAXN, jetson_clocks, JetPack 6.1"
_EDGE = "NVIDIA's performance page, 0.10: JetPack 7.2; mode taken to be MAXN"
_MLC = "jetson-containers, mlc docs: JetPack 6, MAXN"
_MLC_30W = "jetson-containers issue 532: the default mode, 30 W"
_EMBEDL = "embedl's Edge-Inference-Benchmarks; mode not stated, taken to be MAXN"
_MINICPM = "OpenBMB/MiniCPM issue 331: MAXN, jetson_clocks; a round figure"
PUBLISHED = (
    Published("TensorRT-LLM INT4", _LLAMA_3_8B, _INT4, _TENSORRT, 35.9, 91, 128, 128),
    Published("TensorRT-LLM INT4", _LLAMA_3_8B, _INT4, _TENSORRT, 35.2, 260, 512, 512),
    Published("TensorRT-LLM INT4", _LLAMA_3_8B, _INT4, _TENSORRT, 34.7, 582, 1024, 512),
    Published("TensorRT-LLM GPTQ", _LLAMA_3_8B, _GROUPS_OF_128, _TENSORRT, 34.5, 105, 128, 128),
    Published("TensorRT-LLM GPTQ", _LLAMA_3_8B, _GROUPS_OF_128, _TENSORRT, 33.7, 292, 512, 512),
    Published("TensorRT-LLM GPTQ", _LLAMA_3_8B, _GROUPS_OF_128, _TENSORRT, 33.3, 337, 1024, 512),
    Published("Edge-LLM AWQ", _QWEN3_8B, _GROUPS_OF_128, _EDGE, 30.6, 1384, 2048),
    Published("MLC q4f16_ft", _LLAMA_2_7B, _MLC_FT, _MLC, 46.9, None, 16, 128),
    Published("MLC", _LLAMA_2_7B, _MLC_FT, _MLC_30W, 19.3, module=AGX_ORIN_32GB, mode="MODE_30W"),
    Published("vLLM f16", _LLAMA_3B, _F16, _EMBEDL, 25.6),
    Published("vLLM W4A16", _LLAMA_3B, _GROUPS_OF_128, _EMBEDL, 61.2),
    Published("vLLM f16", _LLAMA_1B, _F16, _EMBEDL, 65.0),
    Published("llama.cpp Q4_K_M", _QWEN3_8B, _Q4_K_M, _MINICPM, 25.0),
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
