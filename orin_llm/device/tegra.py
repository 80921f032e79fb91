"""Which of NVIDIA's Tegra chips a machine has, as seen from within a container, too.

There the device tree is hidden, which lies below /sys/firmware. What is read instead comes from the
kernel, which is the machine's: /etc/nv_tegra_release may be that of an image which runs anywhere.
"""

from __future__ import annotations

import re
from pathlib import Path

# GPU and compute capability by the device tree's name of the chip.
TEGRA_GPUS = {
    "nvidia,tegra264": ("Jetson Thor GPU", "11.0"),
    "nvidia,tegra234": ("Orin GPU", "8.7"),
    "nvidia,tegra194": ("Xavier GPU", "7.2"),
    "nvidia,tegra186": ("Tegra X2 GPU", "6.2"),
    "nvidia,tegra210": ("Tegra X1 GPU", "5.3"),
}
# By family and soc_id, as two drivers of the kernel tell them: tegra-fuse and smccc_soc_id.
_BY_SOC_ID = {
    ("Tegra", "25"): "nvidia,tegra194",
    ("Tegra", "35"): "nvidia,tegra234",
    ("jep106:036b", "jep106:036b:0234"): "nvidia,tegra234",
}
# 5.15.148-tegra is NVIDIA's own, 5.15.148-l4t-r36.4.4-1012 that of Yocto's layer for it.
_KERNEL = re.compile(r"-(tegra|l4t)\b")


def tegra_chip(root: Path = Path("/")) -> str:
    """As the device tree names it, such as `nvidia,tegra234`; "" where nothing tells of one.

    `root` stands for `/`.
    """
    for name in _text(root / "proc/device-tree/compatible").split("\0"):
        if name.startswith("nvidia,tegra"):
            return name
    for soc in sorted((root / "sys/devices").glob("soc[0-9]*")):
        told = (_text(soc / "family").strip(), _text(soc / "soc_id").strip())
        if told in _BY_SOC_ID:
            return _BY_SOC_ID[told]
    return ""


def is_tegra(root: Path = Path("/")) -> bool:
    """Whether it has one, be it known which or not."""
    release = _text(root / "proc/sys/kernel/osrelease")
    return bool(tegra_chip(root) or _KERNEL.search(release))


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""
