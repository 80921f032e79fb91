"""Memory that can still be used: what the kernel has, less what a container may not take."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from orin_llm.host.cgroups import group_folders
from orin_llm.host.units import is_count

_UNLIMITED = 1 << 60  # cgroup v1 writes a huge number for "no limit"


@dataclass(frozen=True)
class Memory:
    """All in bytes.

    Attributes:
        total: of the machine, or of the container where that is less.
        available: what new work can have without swapping; page cache that can go is included.
        swap_total, swap_free: swap space.
        gpu_used: the GPU's share of one common memory (Tegra's NvMapMemUsed); None elsewhere.
        limited: a container's limit, not the machine's memory, is what counts.
    """

    total: int
    available: int
    swap_total: int
    swap_free: int
    gpu_used: int | None
    limited: bool

    def to_json(self) -> dict[str, int | bool | None]:
        """With the suffix `_bytes` on sizes."""
        return {k if k == "limited" else f"{k}_bytes": v for k, v in asdict(self).items()}


def read_memory(root: Path = Path("/")) -> Memory:
    """Read /proc/meminfo and the control groups of this process. `root` stands for `/`."""
    info = _meminfo(root / "proc/meminfo")
    total = info.get("MemTotal", 0)
    # Kernels before 3.14 have no MemAvailable.
    available = info.get("MemAvailable", info.get("MemFree", 0) + info.get("Cached", 0))
    limited = False
    for limit, left in _group_limits(root):
        if limit < total:
            total, limited = limit, True
        available = min(available, left)
    return Memory(
        total=total,
        available=max(0, available),
        swap_total=info.get("SwapTotal", 0),
        swap_free=info.get("SwapFree", 0),
        gpu_used=info.get("NvMapMemUsed"),
        limited=limited,
    )


@dataclass(frozen=True)
class ProcessMemory:
    """In bytes: what of this process is in memory, mapped files included, now and at its peak."""

    resident: int
    peak: int


def read_process_memory() -> ProcessMemory:
    """Read /proc/self/status. What a GPU has in memory of its own is not in it."""
    info = _meminfo(Path("/proc/self/status"))
    return ProcessMemory(info.get("VmRSS", 0), info.get("VmHWM", 0))


def _meminfo(path: Path) -> dict[str, int]:
    """Bytes by name; a line that is not `Name: N kB` is skipped."""
    result = {}
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        name, _, rest = line.partition(":")
        fields = rest.split()
        if fields and is_count(fields[0]):
            result[name] = int(fields[0]) * (1024 if fields[-1] == "kB" else 1)
    return result


def _group_limits(root: Path) -> list[tuple[int, int]]:
    """(limit, what is left of it) for each limited control group around this process."""
    found = []
    v1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    v2 = ("memory.max", "memory.current", "inactive_file")
    for folder, is_v2 in group_folders(root, "memory"):
        limit_name, usage_name, cache_name = v2 if is_v2 else v1
        limit, usage = _number(folder / limit_name), _number(folder / usage_name)
        if limit is None or usage is None or limit >= _UNLIMITED:
            continue
        found.append((limit, limit - usage + _stat(folder / "memory.stat", cache_name)))
    return found


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(errors="replace").strip()
    except OSError:
        return None
    return int(text) if is_count(text) else None


def _stat(path: Path, name: str) -> int:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return 0
    for line in lines:
        key, _, value = line.partition(" ")
        if key == name and is_count(value.strip()):
            return int(value)
    return 0
