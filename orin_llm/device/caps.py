"""The clocks and units that the machine may use now, and the bandwidth that they allow."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orin_llm.device.modules import SMS_PER_TPC, Module
from orin_llm.device.nodes import (
    CPU,
    EMC_CAP,
    EMC_CLOCK,
    GPU_CLOCK,
    TPC_MASK,
    cpu_list,
    first_int,
    read_int,
    read_text,
)

TPCS_OF_CHIP = 8  # that an Orin has; modules with fewer SMs have some of them gated for good
# nvpmodel writes "no cap" as 0, as -1, or as the largest integer of the node's type.
_NO_CAP_HZ = (1 << 31) - 1, (1 << 32) - 1


@dataclass(frozen=True)
class Caps:
    """What is in force now; None where nothing tells or, for a cap, there is none.

    Attributes:
        cpus_online: processor cores that are switched on.
        cpu_max_mhz: of the slowest cluster that is on.
        gpu_min_mhz, gpu_max_mhz: equal when jetson_clocks pins the clock.
        tpc_mask: a bit for each TPC of the GPU that is switched off.
        emc_mhz: the memory's clock now.
        emc_cap_mhz: that the power mode sets.
        emc_firmware_max_mhz: that the boot firmware allows; the lower of the two is in force.
    """

    cpus_online: int | None
    cpu_max_mhz: float | None
    gpu_min_mhz: float | None
    gpu_max_mhz: float | None
    tpc_mask: int | None
    emc_mhz: float | None
    emc_cap_mhz: float | None
    emc_firmware_max_mhz: float | None

    @property
    def sm_count(self) -> int | None:
        """SMs that the mask leaves on, of the 16 of the chip; a module may have fewer."""
        return None if self.tpc_mask is None else sms_left(self.tpc_mask)

    def emc_max_mhz(self, module: Module | None) -> float | None:
        """The highest clock that the memory may have: the least of caps and module."""
        most = module.emc_max_mhz if module else None
        limits = [self.emc_cap_mhz, self.emc_firmware_max_mhz, most]
        return min((limit for limit in limits if limit is not None), default=None)

    def peak_bandwidth_gb_s(self, module: Module | None) -> float | None:
        """GB/s at that clock. Only root can read the firmware's cap: else it may be less."""
        clock = self.emc_max_mhz(module)
        return module.bandwidth_gb_s(clock) if module and clock is not None else None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def read_caps(root: Path = Path("/")) -> Caps:
    """Read what is in force. `root` stands for `/`."""
    online = cpu_list(read_text(root / CPU / "online"))
    clocks = [read_int(root / CPU / f"cpu{n}/cpufreq/scaling_max_freq") for n in online]
    known = [khz for khz in clocks if khz is not None]
    return Caps(
        cpus_online=len(online) or None,
        cpu_max_mhz=min(known) / 1000 if known else None,
        gpu_min_mhz=_mhz(first_int(root, (f"{folder}/min_freq" for folder in GPU_CLOCK))),
        gpu_max_mhz=_mhz(first_int(root, (f"{folder}/max_freq" for folder in GPU_CLOCK))),
        tpc_mask=first_int(root, TPC_MASK),
        emc_mhz=_mhz(read_int(root / EMC_CLOCK / "rate")),
        emc_cap_mhz=cap_mhz(first_int(root, EMC_CAP)),
        emc_firmware_max_mhz=_mhz(read_int(root / EMC_CLOCK / "max_rate")),
    )


def cap_mhz(hz: int | None) -> float | None:
    """A cap as nvpmodel writes it; None if it is none."""
    return None if hz is None or hz <= 0 or hz in _NO_CAP_HZ else hz / 1e6


def sms_left(tpc_mask: int) -> int:
    """SMs that a mask of gated TPCs leaves on."""
    return SMS_PER_TPC * (TPCS_OF_CHIP - (tpc_mask & 0xFF).bit_count())


def _mhz(hz: int | None) -> float | None:
    return None if hz is None else hz / 1e6
