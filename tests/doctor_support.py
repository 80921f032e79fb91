"""A board in perfect order for tests of the checks, to be spoilt in one place each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fakes.boards import MODES_64, nvpmodel_conf

from orin_llm.device.board import Board
from orin_llm.device.budget import MemoryBudget
from orin_llm.device.build import Build
from orin_llm.device.caps import Caps
from orin_llm.device.gpu import Gpu, Gpus
from orin_llm.device.modules import AGX_ORIN_64GB
from orin_llm.device.power_modes import parse_power_modes
from orin_llm.device.probes.cuda import CudaProbe
from orin_llm.device.probes.disk import DiskSpeed
from orin_llm.device.probes.load import UnderLoad
from orin_llm.device.reading import Reading
from orin_llm.doctor.catalogue import check
from orin_llm.doctor.finding import Finding
from orin_llm.doctor.machine import Machine, Model, Power, Swap, System
from orin_llm.host.cpu import Cpu
from orin_llm.host.memory import Memory
from orin_llm.models.fit import Fit

CPU = Cpu("Cortex-A78AE", "aarch64", 12, 12, None, ("neon", "dotprod", "fp16"))
MEMORY = Memory(64 << 30, 48 << 30, 0, 0, None, limited=False)
ORIN = Gpu("Orin GPU", "8.7", integrated=True)
CPU_ONLY = Build(
    version="0.1.0", native=True, cpu_flags=("neon", "dotprod"), why="nvcc was not found on PATH"
)
CUDA = Build(
    version="0.1.0", native=True, cuda=True, cuda_architectures="87-real", cuda_version="12.6",
    why="nvcc 12.6 in /usr/local/cuda",
)  # fmt: skip
MODES = parse_power_modes(nvpmodel_conf(MODES_64))
PROBE = CudaProbe(
    driver="12.6", name="Orin", compute_capability="8.7", integrated=True, total_bytes=64 << 30,
    vmm=True, kv_grows=True, largest_bytes=8 << 30, copy_gb_s=160.0,
)  # fmt: skip
READING = Reading(
    0, ("tegrastats", "sysfs", "jtop"), emc_mhz=204, largest_free_block_bytes=4 << 20,
    largest_free_blocks=4096, temperatures_c={"cpu": 50.0, "tj": 51.0}, throttled=(),
    over_current_events=0,
)  # fmt: skip
LOAD = UnderLoad((READING, replace(READING, emc_mhz=3199, temperatures_c={"tj": 55.0})), 90.0)
FIT = Fit(
    8192, 512, "f16", 5 << 30, 1 << 28, 1 << 30, 1 << 20, MemoryBudget(48 << 30, "memory")
)  # fmt: skip
GOOD = Machine(
    board=Board("jetson", (), "Orin Developer Kit", AGX_ORIN_64GB, "36.4.3", "6.2"),
    build=CUDA,
    cpu=CPU,
    gpus=Gpus((ORIN,)),
    memory=MEMORY,
    caps=Caps(12, 2201.6, 1300.5, 1300.5, 0, 204, None, 3199),
    program="/opt/venv/bin/orin-llm",
    environ={},
    power=Power(MODES, MODES.named("MAXN"), MODES.named("MAXN")),
    system=System(
        swaps=(Swap("/swapfile", 16 << 30, 0),),
        desktop="",
        fan_profile="cool",
        cpu_hardware_mhz=2201.6,
        emc_pinned=True,
    ),
    at_rest=READING,
    under_load=LOAD,
    cuda=PROBE,
    binary_code=("sm_87",),
    model=Model("llama", fit=FIT, drive="nvme", disk=DiskSpeed(512 << 20, 0.2, direct=True)),
)
PC = replace(
    GOOD,
    board=Board("pc", (), "PC", None, None, None),
    build=CPU_ONLY,
    gpus=Gpus(()),
    caps=Caps(4, None, None, None, None, None, None, None),
    power=Power(),
    system=System(),
    at_rest=Reading(0),
    under_load=None,
    cuda=None,
    binary_code=None,
)


_MAPPINGS = ("environ", "sensor_problems")  # replaced as a whole


def spoilt(machine: Machine = GOOD, /, **parts: Any) -> list[Finding]:
    """What is not ok once these fields are others; `caps={"tpc_mask": 240}` are fields of one."""
    changes = {
        name: replace(getattr(machine, name), **part)
        if isinstance(part, dict) and name not in _MAPPINGS
        else part
        for name, part in parts.items()
    }
    return [finding for finding in check(replace(machine, **changes)) if finding.level != "ok"]


def only(machine: Machine = GOOD, /, **parts: Any) -> Finding:
    """The one thing that is not ok then."""
    (finding,) = spoilt(machine, **parts)
    return finding


def mode(name: str) -> Power:
    """This power mode is set, and recorded for the next boot."""
    return Power(MODES, MODES.named(name), MODES.named(name))
