"""When a clock counts as another one, and whether jetson_clocks holds clocks at their highest."""

from __future__ import annotations

from pathlib import Path

from orin_llm.device.caps import Caps
from orin_llm.device.nodes import EMC_CLOCK, read_int

_PART = 0.99  # steps are further apart: those of the memory are 204, 665.6, 2133 and 3199 MHz


def reaches(mhz: float, most_mhz: float) -> bool:
    """Whether a clock is as high as it should be, but for rounding."""
    return mhz >= most_mhz * _PART


def emc_pinned(root: Path = Path("/")) -> bool | None:
    """Whether the memory's clock is held; None where nothing tells. `root` stands for `/`."""
    locked = read_int(root / EMC_CLOCK / "mrq_rate_locked")
    return None if locked is None else locked != 0


def gpu_pinned(caps: Caps) -> bool | None:
    """Whether the GPU's clock cannot go down; None where nothing tells."""
    if caps.gpu_min_mhz is None or caps.gpu_max_mhz is None:
        return None
    return reaches(caps.gpu_min_mhz, caps.gpu_max_mhz)
