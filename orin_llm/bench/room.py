"""Whether workloads can be run at all: told before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orin_llm.bench.interference import Interference
from orin_llm.bench.workload import Scenario
from orin_llm.device.budget import MemoryBudget
from orin_llm.engine import EngineConfig
from orin_llm.engine.kv_memory import KvMemory
from orin_llm.errors import UsageError
from orin_llm.gguf.footprint import kv_bytes_per_token
from orin_llm.gguf.header import Header
from orin_llm.models.describe import context
from orin_llm.models.fit import fit

LEAST_CTX = 16  # tokens, of an engine


def require_room(header: Header, config: EngineConfig, scenarios: Iterable[Scenario]) -> None:
    """Raise UsageError where a request is longer than the model's context or the KV memory."""
    n_ctx_train = context(header)
    for scenario in scenarios:
        needed = max(LEAST_CTX, scenario.n_ctx)
        needs = f"{scenario.label} needs {needed} tokens for one request and its answer"
        if needed > n_ctx_train:
            raise UsageError(
                f"{needs}, and this model was trained for {n_ctx_train}: choose fewer "
                f"({scenario.length_flags})"
            )
        if config.kv_memory is None:
            continue
        token_bytes = kv_bytes_per_token(header, config.kv_type)
        pages = KvMemory.parse(config.kv_memory).pages(config.page_size, token_bytes)
        if needed > (room := pages * config.page_size):
            raise UsageError(
                f"{needs}, and a KV memory of {config.kv_memory} holds {room}: choose more "
                f"(--kv-memory) or fewer tokens ({scenario.length_flags})"
            )


def sequences(
    header: Header, budget: MemoryBudget, config: EngineConfig, scenario: Scenario
) -> int:
    """Requests of the scenario's length that the memory arithmetic allows at the same time."""
    fitted = fit(
        header,
        budget,
        ctx=max(LEAST_CTX, scenario.n_ctx),
        chunk_size=config.chunk_size,
        kv_type=config.kv_type,
    )
    return fitted.sequences


def require_full_chunks(scenarios: Sequence[Scenario], chunk_size: int) -> None:
    """Raise UsageError where a long prompt does not fill the step that others wait for."""
    for scenario in scenarios:
        if isinstance(scenario, Interference) and scenario.long_prompt < chunk_size:
            raise UsageError(
                f"a long prompt of {scenario.long_prompt} tokens fills no step of {chunk_size}: "
                "choose a longer one (--long-prompt) or smaller chunks (--chunk-size)"
            )
