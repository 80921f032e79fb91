"""Whether something fits in memory, asked before it is allocated."""

from __future__ import annotations

from orin_llm.errors import OrinError


def available_bytes() -> int:
    """Memory that can be had without swapping: MemAvailable of /proc/meminfo (page cache counts as free)."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    raise OrinError("/proc/meminfo has no MemAvailable line: is this Linux?")


def require_memory(needed_bytes: int, what: str, instead: str) -> None:
    """Raise OrinError when `what` needs more than there is, proposing `instead`."""
    available = available_bytes()
    if needed_bytes > available:
        raise OrinError(
            f"{what} needs {needed_bytes / 2**30:.1f} GiB, "
            f"{available / 2**30:.1f} GiB is available: choose {instead}"
        )
