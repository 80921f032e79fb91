"""Jetson modules with the Orin chip (Tegra234), by part number, and the power modes they ship with.

Sources: names, part numbers and memory are those of the Jetson Linux Developer Guide's Quick Start;
SMs, CPU cores and bus widths those of NVIDIA's data sheets; the steps of the clocks and the modes
of the AGX modules are those of `nvpmodel_p3701_0000.conf` and `nvpmodel_p3701_0004.conf`. On a
board the files and nodes of the board itself are right, and these figures what they should say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

EMC_MAX_MHZ = 3199  # the highest step of LPDDR5's clock
EMC_TRAP_MHZ = 2133  # where the firmware caps it at boot, until a service of JetPack lifts that
THROTTLING_C = 99.0  # where the kernel lowers the clocks; it shuts down at 104.5
SMS_PER_TPC = 2
# Dense products on the tensor cores, two operations to a multiply-add. NVIDIA's technical brief of
# the AGX Orin states 170 sparse int8 TOPS for 16 SMs at 1.3 GHz: 85 dense, and half that in f16.
F16_FLOPS_PER_SM_CLOCK = 2048
_PART = re.compile(r"nvidia,(?:.*\+)?(p(?:3701|3767)-\d{4})")


@dataclass(frozen=True)
class Module:
    """What a module can do with no cap on it.

    Attributes:
        name: as NVIDIA sells it.
        part: such as `p3701-0005`.
        memory_gb: nominal, shared by CPU and GPU; what Linux reports is some GB less.
        sm_count: streaming multiprocessors of the GPU, two to a TPC.
        cpu_cores: Cortex-A78AE.
        bus_bits: width of the memory bus.
        gpu_max_mhz, emc_max_mhz: None where it depends on the release of L4T.
    """

    name: str
    part: str
    memory_gb: int
    sm_count: int
    cpu_cores: int
    bus_bits: int
    gpu_max_mhz: float | None
    emc_max_mhz: int | None

    def bandwidth_gb_s(self, emc_mhz: float) -> float:
        """GB/s at a clock of the memory: 204.8 for 256 bits at 3199 MHz, and in proportion."""
        return self.bus_bits / 256 * 204.8 * emc_mhz / EMC_MAX_MHZ

    @property
    def peak_bandwidth_gb_s(self) -> float | None:
        """GB/s at the highest clock of the memory; None where that is not known."""
        return None if self.emc_max_mhz is None else self.bandwidth_gb_s(self.emc_max_mhz)

    @property
    def f16_tflops(self) -> float | None:
        """Dense f16 products at the highest clock of the GPU; None where that is not known."""
        return None if self.gpu_max_mhz is None else f16_tflops(self.sm_count, self.gpu_max_mhz)


def f16_tflops(sm_count: int, gpu_mhz: float) -> float:
    """TFLOP/s of dense f16 products on the tensor cores: 42.6 for 16 SMs at 1300.5 MHz."""
    return sm_count * gpu_mhz * 1e6 * F16_FLOPS_PER_SM_CLOCK / 1e12


def _agx(name: str, part: str, memory: int, sms: int, cores: int, mhz: float | None) -> Module:
    return Module(name, part, memory, sms, cores, 256, mhz, EMC_MAX_MHZ)


# 930.75 MHz is the step of the GPU's clock nearest to the 930 MHz of the 32 GB module's data sheet;
# read the devfreq node's `max_freq` on a board. The developer kit of 2022 (0000) has 32 GB, but the
# CPU and GPU of the 64 GB module.
MODULES = {
    module.part: module
    for module in (
        _agx("Jetson AGX Orin (developer kit, 32 GB)", "p3701-0000", 32, 16, 12, 1300.5),
        _agx("Jetson AGX Orin 32GB", "p3701-0004", 32, 14, 8, 930.75),
        _agx("Jetson AGX Orin 64GB", "p3701-0005", 64, 16, 12, 1300.5),
        _agx("Jetson AGX Orin Industrial 64GB", "p3701-0008", 64, 16, 12, None),
        Module("Jetson Orin NX 16GB", "p3767-0000", 16, 8, 8, 128, None, EMC_MAX_MHZ),
        Module("Jetson Orin NX 8GB", "p3767-0001", 8, 8, 6, 128, None, EMC_MAX_MHZ),
        Module("Jetson Orin Nano 8GB", "p3767-0003", 8, 8, 6, 128, None, None),
        Module("Jetson Orin Nano 4GB", "p3767-0004", 4, 4, 6, 64, None, None),
        Module("Jetson Orin Nano 8GB (developer kit)", "p3767-0005", 8, 8, 6, 128, None, None),
    )
}
AGX_ORIN_64GB = MODULES["p3701-0005"]
AGX_ORIN_32GB = MODULES["p3701-0004"]


def find_module(compatible: Iterable[str]) -> Module | None:
    """The module that `/proc/device-tree/compatible` names, or None.

    `compatible` is its strings, such as `nvidia,p3737-0000+p3701-0005`: carrier, then module.
    """
    for entry in compatible:
        match = _PART.fullmatch(entry)
        if match and match[1] in MODULES:
            return MODULES[match[1]]
    return None


@dataclass(frozen=True)
class ShippedMode:
    """A power mode as nvpmodel ships it: what it leaves of the GPU and the memory's clock.

    Attributes:
        budget_w: None for MAXN, which has none.
    """

    id: int
    name: str
    budget_w: int | None
    sm_count: int
    gpu_max_mhz: float
    emc_max_mhz: int


# From the two files named above; the 30 W mode is the default of both, and gates half of the GPU.
SHIPPED_MODES = {
    AGX_ORIN_64GB.part: (
        ShippedMode(0, "MAXN", None, 16, 1300.5, EMC_MAX_MHZ),
        ShippedMode(1, "MODE_15W", 15, 6, 408, EMC_TRAP_MHZ),
        ShippedMode(2, "MODE_30W", 30, 8, 612, EMC_MAX_MHZ),
        ShippedMode(3, "MODE_50W", 50, 16, 816, EMC_MAX_MHZ),
    ),
    AGX_ORIN_32GB.part: (
        ShippedMode(0, "MAXN", None, 14, 930.75, EMC_MAX_MHZ),
        ShippedMode(1, "MODE_15W", 15, 6, 408, EMC_TRAP_MHZ),
        ShippedMode(2, "MODE_30W", 30, 8, 612, EMC_MAX_MHZ),
        ShippedMode(3, "MODE_40W", 40, 14, 816, EMC_MAX_MHZ),
    ),
}
SHIPPED_DEFAULT_MODE = "MODE_30W"
