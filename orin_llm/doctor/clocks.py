"""When a clock counts as another one."""

from __future__ import annotations

_PART = 0.99  # steps are further apart: those of the memory are 204, 665.6, 2133 and 3199 MHz


def reaches(mhz: float, most_mhz: float) -> bool:
    """Whether a clock is as high as it should be, but for rounding."""
    return mhz >= most_mhz * _PART
