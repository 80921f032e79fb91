"""Memory: how much is left, in how large pieces, and what swap does to it."""

from __future__ import annotations

from collections.abc import Iterator

from orin_llm.doctor.finding import Finding
from orin_llm.doctor.machine import Machine
from orin_llm.host.units import size_text

LOW_MEMORY_BYTES = 1 << 30
_WHOLE_BLOCK_BYTES = 4 << 20  # the kernel's largest
LEAST_WHOLE_SHARE = 0.02  # of what is available; boards that run well have from 4 % on
_DROP = "drop the page cache (sync; sudo sysctl vm.drop_caches=3); if it stays so, reboot"


def available(machine: Machine) -> Iterator[Finding]:
    """Memory for new work; page cache that can go is counted in, as CUDA does not."""
    memory = machine.memory
    if memory.total == 0:
        yield Finding("memory", "unknown", "/proc/meminfo cannot be read")
    elif memory.available < LOW_MEMORY_BYTES:
        yield Finding(
            "memory",
            "warning",
            f"only {size_text(memory.available)} of memory are available",
            expected=f"{size_text(LOW_MEMORY_BYTES)} or more",
            fix="end programs that use it, or take a smaller model",
        )
    else:
        yield Finding("memory", "ok", f"{size_text(memory.available)} are available")


def fragmentation(machine: Machine) -> Iterator[Finding]:
    """Free memory comes in large blocks: the driver fails with error 12 where it does not."""
    if not machine.board.is_jetson:
        return
    size, count = machine.at_rest.largest_free_block_bytes, machine.at_rest.largest_free_blocks
    if size is None or count is None:
        yield Finding("free blocks", "unknown", "tegrastats tells nothing of them")
        return
    found = f"the largest free blocks are {count} of {size >> 10} KiB"
    if size >= 1 << 20:
        found = f"the largest free blocks are {count} of {size >> 20} MiB"
    share = size * count / max(1, machine.memory.available)
    if size >= _WHOLE_BLOCK_BYTES and share >= LEAST_WHOLE_SHARE:
        yield Finding("free blocks", "ok", found)
    else:
        yield Finding(
            "free blocks",
            "warning",
            f"{found}: free memory is in small pieces, and large allocations may fail",
            expected=f"blocks of 4 MiB, {LEAST_WHOLE_SHARE:.0%} of what is available or more",
            fix=_DROP,
        )


def swap(machine: Machine) -> Iterator[Finding]:
    """Swap on the drive: zram takes of the memory that it is to save."""
    if not machine.board.is_jetson:
        return
    swaps = machine.system.swaps
    if swaps is None:
        yield Finding("swap", "unknown", "/proc/swaps cannot be read")
        return
    zram = [space for space in swaps if space.is_zram]
    fix = machine.setup("swapfile", "zram")
    if zram:
        used = sum(space.used for space in zram)
        yield Finding(
            "swap",
            "warning",
            f"zram ({size_text(used)} in it), which is memory that the GPU could use",
            expected="a swap file on an NVMe drive",
            fix=fix,
        )
    elif not swaps:
        yield Finding(
            "swap",
            "note",
            "none: what is not used while a model runs stays in memory",
            expected="a swap file on an NVMe drive",
            fix=machine.setup("swapfile"),
        )
    else:
        total, used = sum(s.size for s in swaps), sum(s.used for s in swaps)
        yield Finding("swap", "ok", f"{size_text(used)} of {size_text(total)} used")
