"""How much memory a model may use: the GPU's own where one is used, else the machine's."""

from __future__ import annotations

from dataclasses import dataclass

from orin_llm.device.gpu import Gpus, find_gpus
from orin_llm.host.memory import Memory, read_memory


@dataclass(frozen=True)
class MemoryBudget:
    """Bytes that new work can have, and where.

    Attributes:
        place: its name.
        is_gpus_own: what the CPU keeps is not in it.
    """

    bytes: int
    place: str
    is_gpus_own: bool = False


def memory_budget(uses_cuda: bool) -> MemoryBudget:
    """The budget on this machine; `uses_cuda` tells whether the build can use a GPU."""
    return choose_budget(uses_cuda, find_gpus() if uses_cuda else Gpus(()), read_memory())


def choose_budget(uses_cuda: bool, gpus: Gpus, memory: Memory) -> MemoryBudget:
    """The first GPU's free memory if it has its own; an integrated GPU shares the machine's."""
    for gpu in gpus.usable if uses_cuda else ():
        if not gpu.integrated and gpu.free_bytes is not None:
            return MemoryBudget(gpu.free_bytes, f"free memory of the {gpu.name}", is_gpus_own=True)
    where = "this container" if memory.limited else "this machine"
    return MemoryBudget(memory.available, f"available memory of {where}")
