"""The processor: the cores this process may use, and the instructions that matter here."""

from __future__ import annotations

import math
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orin_llm.host.cgroups import group_folders
from orin_llm.host.units import is_count

# Instruction sets that llama.cpp has code for: /proc/cpuinfo's name and the compilers'.
_FEATURES = {
    "sse4_2": "sse4.2", "avx": "avx", "avx2": "avx2", "fma": "fma", "f16c": "f16c", "bmi2": "bmi2",
    "avx_vnni": "avx_vnni", "avx512f": "avx512f", "avx512vbmi": "avx512_vbmi",
    "avx512_vnni": "avx512_vnni", "avx512_bf16": "avx512_bf16", "amx_int8": "amx_int8",
    "asimd": "neon", "asimddp": "dotprod", "asimdhp": "fp16", "asimdfhm": "fp16fml",
    "i8mm": "i8mm", "bf16": "bf16", "sve": "sve",
}  # fmt: skip
# MIDR part numbers of implementer 0x41 (Arm).
_ARM_PARTS = {
    0xD03: "Cortex-A53", 0xD05: "Cortex-A55", 0xD08: "Cortex-A72", 0xD0B: "Cortex-A76",
    0xD0C: "Neoverse-N1", 0xD40: "Neoverse-V1", 0xD41: "Cortex-A78", 0xD42: "Cortex-A78AE",
    0xD49: "Neoverse-N2", 0xD4F: "Neoverse-V2",
}  # fmt: skip


@dataclass(frozen=True)
class Cpu:
    """The processor as this process sees it.

    Attributes:
        model: such as `Cortex-A78AE`.
        architecture: such as `aarch64`.
        physical_cores: that the process may run on; siblings of one core count once.
        logical_cores: hardware threads that the process may run on.
        quota: processors' worth of time that a container allows; None without a limit.
        features: instruction sets of use here, named as in `build_info()["cpu_flags"]`.
    """

    model: str
    architecture: str
    physical_cores: int
    logical_cores: int
    quota: float | None
    features: tuple[str, ...]

    @property
    def threads(self) -> int:
        """Threads worth starting: more than the quota would only wait for each other."""
        if self.quota is None:
            return self.physical_cores
        return max(1, min(self.physical_cores, math.ceil(self.quota)))

    def to_json(self) -> dict[str, Any]:
        """All fields, and `threads`."""
        return {**asdict(self), "features": list(self.features), "threads": self.threads}


def read_cpu(root: Path = Path("/"), allowed: frozenset[int] | None = None) -> Cpu:
    """Read the processor. `root` stands for `/`; `allowed` for the affinity of this process."""
    if allowed is None:
        allowed = frozenset(os.sched_getaffinity(0))
    fields = _cpuinfo(root / "proc/cpuinfo")
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    return Cpu(
        model=_model(fields),
        architecture=platform.machine(),
        physical_cores=max(1, len({_core(root, cpu) for cpu in allowed})),
        logical_cores=len(allowed),
        quota=_quota(root),
        features=tuple(name for flag, name in _FEATURES.items() if flag in flags),
    )


def _cpuinfo(path: Path) -> dict[str, str]:
    """The first processor's fields."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return {}
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    return fields


def _model(fields: dict[str, str]) -> str:
    if "model name" in fields:
        return fields["model name"]
    try:
        implementer, part = int(fields["CPU implementer"], 16), int(fields["CPU part"], 16)
    except (KeyError, ValueError):
        return "unknown"
    if implementer == 0x41:
        return _ARM_PARTS.get(part, f"Arm part {part:#x}")
    return f"implementer {implementer:#x} part {part:#x}"


def _core(root: Path, cpu: int) -> str:
    """Something that is the same for all hardware threads of one core."""
    topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
    for name in ("core_cpus_list", "thread_siblings_list"):
        try:
            return (topology / name).read_text(errors="replace").strip()
        except OSError:
            continue
    return f"cpu{cpu}"


def _quota(root: Path) -> float | None:
    """Processors that the least of the container's time limits is worth."""
    quotas = [_group_quota(folder, v2) for folder, v2 in group_folders(root, "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def _group_quota(folder: Path, v2: bool) -> float | None:
    names = ("cpu.max",) if v2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    try:
        fields = " ".join((folder / name).read_text(errors="replace") for name in names).split()
    except OSError:
        return None
    if len(fields) != 2 or not all(is_count(field) for field in fields) or int(fields[1]) == 0:
        return None
    return int(fields[0]) / int(fields[1])
