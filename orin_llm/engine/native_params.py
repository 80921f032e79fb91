"""A configuration as the native core takes it."""

from __future__ import annotations

from orin_llm import _native
from orin_llm.engine.config import EngineConfig
from orin_llm.engine.kv_memory import KvRoom
from orin_llm.host.cpu import read_cpu
from orin_llm.host.cpu_set import parse_cores, require_cores


def thread_count(config: EngineConfig) -> int:
    """The CPU threads that it comes to here: those asked for, or the physical cores.

    Raises:
        UsageError: `config.cpus` names cores that this process may not use.
    """
    cores = parse_cores(config.cpus)
    require_cores(cores)
    return config.threads or read_cpu(allowed=cores or None).threads


def native_params(
    config: EngineConfig, room: KvRoom, *, prompt_outputs: int = 1
) -> _native.EngineParams:
    """Of an engine on a model for which `config` comes to `room`.

    prompt_outputs: prompt tokens of a step whose logits are wanted; more than one need a max_batch
    of 1.
    """
    return _native.EngineParams(
        n_ctx=room.n_ctx,
        chunk_size=config.chunk_size,
        max_batch=config.max_batch,
        threads=thread_count(config),
        cpus=sorted(parse_cores(config.cpus)),
        k_type=config.kv_types.k.name,
        v_type=config.kv_types.v.name,
        flash_attention=config.flash_attention,
        hooks=config.hooks.enabled,
        kernels=dict(config.kernels.chosen),
        page_size=config.page_size,
        kv_pages=room.pages,
        prefix_cache=config.prefix_cache,
        prompt_outputs=prompt_outputs,
    )
