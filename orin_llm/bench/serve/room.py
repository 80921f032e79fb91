"""How many requests the memory of a server's machine has room for."""

from __future__ import annotations

from collections.abc import Iterable

from orin_llm.bench.serve.load import Load
from orin_llm.device.budget import MemoryBudget
from orin_llm.device.gpu import Gpus, find_gpus
from orin_llm.gguf.header import Header
from orin_llm.host.memory import Memory, read_memory
from orin_llm.models.fit import fit


def room_for(header: Header, loads: Iterable[Load], uses_cuda: bool) -> dict[int, int]:
    """Requests at once by their length in tokens (Load.n_ctx), for a server on this machine.

    The server has its part already, so all memory that there is counts, not what is free.
    """
    budget = whole_memory(find_gpus() if uses_cuda else Gpus(()), read_memory())
    lengths = {load.n_ctx for load in loads}
    return {length: fit(header, budget, ctx=length).sequences for length in lengths}


def whole_memory(gpus: Gpus, memory: Memory) -> MemoryBudget:
    """All of the first GPU's own memory; an integrated GPU shares the machine's."""
    for gpu in gpus.usable:
        if not gpu.integrated and gpu.total_bytes is not None:
            return MemoryBudget(gpu.total_bytes, f"memory of the {gpu.name}")
    return MemoryBudget(memory.total, "memory of this machine")
