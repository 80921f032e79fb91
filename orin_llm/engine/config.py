"""What an engine and a sampling run are told at the start: frozen, validated once, here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from orin_llm.engine.field_types import check_field_types
from orin_llm.engine.kernels import FORM, Kernels
from orin_llm.engine.kv_memory import KvMemory
from orin_llm.errors import UsageError
from orin_llm.gguf.kv_types import KvTypes
from orin_llm.host.cpu_set import cores_text, parse_cores

HOOK_NAMES = (
    "rope",
    "pages",
    "attention",
    "sampling",
    "uploads",
    "lanes",
    "gather",
    "matrices",
    "growth",
)
_PAGE_SIZES = "8, 16, 32, 64, 128 or 256"
MAX_BATCH = 64
INT32_MAX = (1 << 31) - 1
MAX_SEED = (1 << 64) - 1
ORDERS = ("orin", "llama")
FLASH_CHOICES = ("auto", "on", "off")


@dataclass(frozen=True)
class Hooks:
    """Which of our changes to llama.cpp an engine uses; fixed when the engine is made."""

    enabled: frozenset[str] = frozenset(HOOK_NAMES)

    def __post_init__(self) -> None:
        unknown = self.enabled - set(HOOK_NAMES)
        if unknown:
            raise UsageError(
                f"unknown hook {', '.join(sorted(unknown))}: known are {', '.join(HOOK_NAMES)}"
            )

    @classmethod
    def none(cls) -> Hooks:
        """Stock llama.cpp, bit for bit."""
        return cls(frozenset())

    @classmethod
    def parse(cls, text: str) -> Hooks:
        """Read `all`, `none`, or a list of changes to the default such as `-rope`."""
        text = text.strip()
        if text in ("", "all"):
            return cls()
        if text == "none":
            return cls.none()
        enabled = set(HOOK_NAMES)
        for item in (part.strip() for part in text.split(",")):
            name = item.lstrip("+-")
            if name not in HOOK_NAMES:
                raise UsageError(
                    f"unknown hook {name!r} in {text!r}: known are {', '.join(HOOK_NAMES)}; "
                    "write all, none, or -NAME to switch one off"
                )
            if item.startswith("-"):
                enabled.discard(name)
            else:
                enabled.add(name)
        return cls(frozenset(enabled))


@dataclass(frozen=True)
class EngineConfig:
    """How an engine is made.

    Attributes:
        n_ctx: tokens one sequence may hold; 0 takes the model's own limit, at most 8192.
        chunk_size: prompt tokens computed in one step.
        max_batch: completions computed at the same time; more wait.
        threads: CPU threads; 0 takes the physical cores that the process may use.
        cpus: the cores that the engine's threads may use, such as "0-3,6"; "" is all that the
            process may use.
        gpu_layers: layers kept on the GPU; -1 is all of them, if there is one; 0: no GPU is used.
        hooks: our changes to llama.cpp; text is read as by `Hooks.parse`.
        kernels: choices of kernels on a GPU, by name; text is read as by `Kernels.parse`.
        kv_type: element types of the KV cache: "q8_0" of keys and values, "q8_0:q4_0" of keys and
            of values.
        page_size: tokens in a page of the KV cache, a power of two.
        kv_memory: what the KV cache may hold of all completions and earlier prompts together, in
            tokens (32768) or bytes ("512MiB"); None takes what max_batch full contexts need, within
            half of the memory that is free.
        flash_attention: where llama.cpp's attention computes (a KV cache without pages; on a GPU
            prompts that are gathered): "on", "off", or "auto" as llama.cpp decides.
        prefix_cache: find the beginnings of earlier prompts in the cache again.
        use_mmap: map the file where that helps (CPU) instead of reading it.
        check_tensors: refuse a file whose weights are not all finite; a load takes longer then.
        publish: let the user's tools read the statistics on a Unix socket (orin_llm.stats).
    """

    n_ctx: int = 0
    chunk_size: int = 512
    max_batch: int = 16
    threads: int = 0
    cpus: str = ""
    gpu_layers: int = -1
    hooks: Hooks = field(default_factory=Hooks)
    kernels: Kernels = field(default_factory=Kernels)
    kv_type: str = "f16"
    page_size: int = 16
    kv_memory: str | int | None = None
    flash_attention: str = "auto"
    prefix_cache: bool = True
    use_mmap: bool = True
    check_tensors: bool = False
    publish: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.hooks, str):
            object.__setattr__(self, "hooks", Hooks.parse(self.hooks))
        elif not isinstance(self.hooks, Hooks):
            raise UsageError(f"hooks is {self.hooks!r}: expected Hooks, or text such as 'none'")
        if isinstance(self.kernels, str):
            object.__setattr__(self, "kernels", Kernels.parse(self.kernels))
        elif isinstance(self.kernels, Mapping):
            object.__setattr__(self, "kernels", Kernels(dict(self.kernels)))
        elif not isinstance(self.kernels, Kernels):
            raise UsageError(
                f"kernels is {self.kernels!r}: expected Kernels, a dict, or text: {FORM}"
            )
        check_field_types(self)
        _require(
            self.n_ctx == 0 or 16 <= self.n_ctx <= 1 << 22,
            "the context size (-c/--ctx-size, n_ctx in Python)",
            self.n_ctx,
            "0 or 16 … 4194304",
        )
        _require(1 <= self.chunk_size <= 8192, "chunk_size", self.chunk_size, "1 … 8192")
        _require(1 <= self.max_batch <= MAX_BATCH, "max_batch", self.max_batch, f"1 … {MAX_BATCH}")
        _require(0 <= self.threads <= 512, "threads", self.threads, "0 … 512")
        layers = self.gpu_layers
        _require(-1 <= layers <= INT32_MAX, "gpu_layers", layers, "-1 (all) or more")
        size = self.page_size
        _require(8 <= size <= 256 and size & (size - 1) == 0, "page_size", size, _PAGE_SIZES)
        if self.kv_memory is not None:
            KvMemory.parse(self.kv_memory)
        object.__setattr__(self, "kv_type", self.kv_types.text)
        object.__setattr__(self, "cpus", cores_text(parse_cores(self.cpus)))
        flash, choices = self.flash_attention, ", ".join(FLASH_CHOICES)
        _require(flash in FLASH_CHOICES, "flash_attention (--flash)", flash, choices)
        if flash == "off":
            self._require_other_attention()

    @property
    def kv_types(self) -> KvTypes:
        """`kv_type`, of keys and of values."""
        return KvTypes.parse(self.kv_type)

    def _require_other_attention(self) -> None:
        if {"pages", "attention"} & self.hooks.enabled == {"pages"}:
            raise UsageError(
                "flash_attention is 'off': without the hook attention, pages are read by "
                "llama.cpp's flash attention alone. Switch the hook pages off, too"
            )
        if "pages" not in self.hooks.enabled and self.kv_types.v.block_elements > 1:
            raise UsageError(
                f"flash_attention is 'off': without the hook pages, values of type "
                f"{self.kv_types.v.name} are read by llama.cpp's flash attention alone. Take f16 "
                f"for them (-ctk {self.kv_types.k.name}:f16)"
            )


@dataclass(frozen=True)
class SamplingParams:
    """How a token is drawn: penalties, bias, temperature, top-k, top-p, min-p, in that order.

    docs/sampling.md states the rule.

    Attributes:
        temperature: 0 takes the likeliest token (greedy).
        top_k: keep the k likeliest; 0 keeps all.
        top_p: keep the likeliest whose probabilities sum to p; 1 keeps all.
        min_p: keep tokens of at least min_p times the likeliest's probability; 0 keeps all.
        repeat_penalty: divides the logits of recent tokens; 1 is off.
        frequency_penalty, presence_penalty: subtracted per occurrence and once; 0 is off.
        penalty_window: recent tokens that the penalties look at; 0 is none, -1 the whole context.
        seed: of the random draw; None takes a new one each time.
        logit_bias: added to a token's logit, by token id.
        order: "orin" is the order above; "llama" takes the temperature last, as llama.cpp does.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_window: int = 64
    seed: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    order: str = "orin"

    def __post_init__(self) -> None:
        check_field_types(self)
        _require(0 <= self.temperature <= 100, "temperature", self.temperature, "0 … 100")
        _require(0 <= self.top_k <= INT32_MAX, "top_k", self.top_k, "0 (off) or more")
        _require(0 <= self.top_p <= 1, "top_p", self.top_p, "0 … 1")
        _require(0 <= self.min_p <= 1, "min_p", self.min_p, "0 … 1")
        _require(
            0 < self.repeat_penalty <= 100, "repeat_penalty", self.repeat_penalty, "above 0, to 100"
        )
        for name in ("frequency_penalty", "presence_penalty"):
            value = getattr(self, name)
            _require(math.isfinite(value) and abs(value) <= 100, name, value, "-100 … 100")
        _require(
            self.penalty_window >= -1,
            "penalty_window",
            self.penalty_window,
            "-1 (all), 0 (none) or more",
        )
        if self.seed is not None:
            _require(0 <= self.seed <= MAX_SEED, "seed", self.seed, f"0 … {MAX_SEED}")
        _require(self.order in ORDERS, "order", self.order, " or ".join(ORDERS))
        for token, bias in self.logit_bias.items():
            _require(bias < math.inf, f"logit_bias[{token}]", bias, "a number below infinity")


def _require(ok: bool, name: str, value: object, expected: str) -> None:
    if not ok:
        raise UsageError(f"{name} is {value!r}: expected {expected}")
