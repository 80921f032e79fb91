"""Arguments of llama-cpp-python's Llama, translated for the engine or refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orin_llm.engine import EngineConfig, Hooks
from orin_llm.errors import UsageError
from orin_llm.gguf.kv_types import KV_TYPES, KvType, KvTypes

# What stands for "a new one each time": the all-ones number there, and -1.
RANDOM_SEEDS = (-1, 0xFFFFFFFF)

# These change how fast an answer comes there, never what it says; the engine decides them itself.
TUNING = frozenset(
    {
        "flash_attn",
        "n_threads_batch",
        "no_perf",
        "numa",
        "offload_kqv",
        "op_offload",
        "swa_full",
        "use_mlock",
        "verbose",
        # Log-probabilities need no preparation here.
        "logits_all",
    }
)

# Not supported: only values that ask for nothing are let through.
NEUTRAL: dict[str, tuple[object, ...]] = {
    "attention_type": (-1,),
    "chat_handler": (None,),
    "draft_model": (None,),
    "embedding": (False,),
    "kv_overrides": (None, {}),
    "lora_base": (None,),
    "lora_path": (None,),
    "lora_scale": (1.0,),
    "main_gpu": (0,),
    "pooling_type": (-1,),
    "rope_freq_base": (0.0,),
    "rope_freq_scale": (0.0,),
    "rope_scaling_type": (-1, None),
    "split_mode": (1,),
    "spm_infill": (False,),
    "tensor_split": (None,),
    "tokenizer": (None,),
    "vocab_only": (False,),
    "yarn_attn_factor": (1.0,),
    "yarn_beta_fast": (32.0,),
    "yarn_beta_slow": (1.0,),
    "yarn_ext_factor": (-1.0,),
    "yarn_orig_ctx": (0,),
    # of a completion
    "function_call": (None,),
    "functions": (None,),
    "grammar": (None,),
    "logits_processor": (None,),
    "mirostat_mode": (0,),
    "response_format": (None, {"type": "text"}),
    "stopping_criteria": (None,),
    "suffix": (None,),
    "tfs_z": (1.0,),
    "tool_choice": (None, "auto", "none"),
    "typical_p": (1.0,),
}
INSTEAD = {
    "embedding": "embeddings cannot be computed yet",
    "functions": "pass tools",
    "function_call": "pass tools",
    "lora_path": "merge the adapter into the model file",
}

# By ggml's number of an element type of the KV cache.
KV_TYPES_BY_NUMBER: dict[int | None, KvType] = {t.ggml_type: t for t in KV_TYPES.values()}
KV_TYPES_BY_NUMBER[None] = KV_TYPES["f16"]


def refuse_unsupported(**values: object) -> None:
    """Raise UsageError for the first argument that asks for something that is not supported."""
    for name, value in values.items():
        if value not in NEUTRAL[name]:
            advice = INSTEAD.get(name, f"leave it at {NEUTRAL[name][0]!r}")
            raise UsageError(f"{name}={value!r} is not supported: {advice}")


def check_constructor_options(options: Mapping[str, object]) -> None:
    """Check the arguments of the constructor that the engine has no setting for."""
    for name, value in options.items():
        if name in TUNING:
            continue
        if name not in NEUTRAL:
            raise UsageError(f"Llama has no argument {name!r}: leave it out")
        refuse_unsupported(**{name: value})


def engine_config(
    *,
    n_ctx: int,
    n_batch: int,
    n_ubatch: int,
    n_threads: int | None,
    n_gpu_layers: int,
    use_mmap: bool,
    type_k: int | None,
    type_v: int | None,
    hooks: Hooks,
) -> EngineConfig:
    """The engine's settings for the arguments of the constructor."""
    return EngineConfig(
        n_ctx=n_ctx,
        chunk_size=min(n_batch, n_ubatch),
        threads=n_threads or 0,
        gpu_layers=max(n_gpu_layers, -1),
        kv_type=KvTypes(_kv_type("type_k", type_k), _kv_type("type_v", type_v)).text,
        use_mmap=use_mmap,
        hooks=hooks,
    )


def _kv_type(name: str, number: int | None) -> KvType:
    if number not in KV_TYPES_BY_NUMBER:
        known = ", ".join(f"{kind.ggml_type} ({kind.name})" for kind in KV_TYPES.values())
        raise UsageError(f"{name}={number!r} is not supported: expected {known}")
    return KV_TYPES_BY_NUMBER[number]


def stop_texts(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """Stop strings, however they were given."""
    if stop is None:
        return ()
    return (stop,) if isinstance(stop, str) else tuple(stop)
