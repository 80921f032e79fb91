"""All that the checks look at, read once: each check is a function of it and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orin_llm.device.board import Board
from orin_llm.device.build import Build
from orin_llm.device.caps import Caps
from orin_llm.device.gpu import Gpus
from orin_llm.device.power_modes import PowerMode, PowerModes
from orin_llm.device.reading import Reading
from orin_llm.host.cpu import Cpu
from orin_llm.host.memory import Memory

if TYPE_CHECKING:
    from orin_llm.device.probes.cuda import CudaProbe
    from orin_llm.device.probes.disk import DiskSpeed
    from orin_llm.device.probes.load import UnderLoad
    from orin_llm.models.fit import Fit


@dataclass(frozen=True)
class Power:
    """The power modes of a Jetson.

    Attributes:
        modes: that it has; None where they cannot be read.
        now: the mode in force; None where nothing tells.
        at_boot: the mode that is recorded for the next boot.
        by_setup: `orin-llm setup` has set it, so somebody wants it.
    """

    modes: PowerModes | None = None
    now: PowerMode | None = None
    at_boot: PowerMode | None = None
    by_setup: bool = False


@dataclass(frozen=True)
class Swap:
    """One space of swap, in bytes."""

    name: str
    size: int
    used: int

    @property
    def is_zram(self) -> bool:
        """It lies in memory, compressed."""
        return "zram" in self.name


@dataclass(frozen=True)
class System:
    """What runs beside the toolkit. None is what cannot be read.

    Attributes:
        swaps: spaces of swap.
        desktop: the program or target that a desktop was known by; "" if there is none.
        fan_profile: of nvfancontrol.
        cpu_hardware_mhz: the clock that the processor could have, of its slowest cluster.
        emc_pinned: jetson_clocks holds the memory's clock.
        nvcc: the toolkit's compiler where its packages put it, or "".
    """

    swaps: tuple[Swap, ...] | None = None
    desktop: str | None = None
    fan_profile: str | None = None
    cpu_hardware_mhz: float | None = None
    emc_pinned: bool | None = None
    nvcc: str = ""


@dataclass(frozen=True)
class Model:
    """The model that is to run.

    Attributes:
        problem: why its file cannot be used, or "".
        fit: the memory that it needs and that there is.
        drive: what its file lies on: `nvme`, `mmc`, or "" for anything else.
        disk: how fast the file is read; None if that was not measured.
        disk_problem: why it could not be.
    """

    name: str
    problem: str = ""
    fit: Fit | None = None
    drive: str = ""
    disk: DiskSpeed | None = None
    disk_problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """For `--json`: sizes in bytes, the rate of the disk in bytes a second."""
        disk = self.disk
        return {
            "name": self.name,
            "problem": self.problem,
            "memory": self.fit.to_json() if self.fit else None,
            "drive": self.drive,
            "disk_read_bytes": disk.bytes if disk else None,
            "disk_bytes_per_s": disk.bytes_per_s if disk else None,
            "disk_direct": disk.direct if disk else None,
            "disk_problem": self.disk_problem,
        }


@dataclass(frozen=True)
class Machine:
    """A machine.

    Attributes:
        program: absolute path of `orin-llm`, since sudo does not search the user's PATH.
        is_root: this process may read all.
        at_rest: the sensors before the load.
        under_load: while all cores copied memory; None if that was not done.
        sensor_problems: why sources of readings tell nothing, by name.
        cuda: None where there is nothing to ask.
        binary_code: architectures that the extension holds code for (`sm_87`); None: not read.
        model: None if there is none.
    """

    board: Board
    build: Build
    cpu: Cpu
    gpus: Gpus
    memory: Memory
    caps: Caps
    program: str = "orin-llm"
    is_root: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    power: Power = field(default_factory=Power)
    system: System = field(default_factory=System)
    at_rest: Reading = field(default_factory=lambda: Reading(0))
    under_load: UnderLoad | None = None
    sensor_problems: Mapping[str, str] = field(default_factory=dict)
    cuda: CudaProbe | None = None
    binary_code: tuple[str, ...] | None = None
    model: Model | None = None

    @property
    def readings(self) -> tuple[Reading, ...]:
        """At rest and under load."""
        return (self.at_rest, *(self.under_load.readings if self.under_load else ()))

    def as_root(self, arguments: str) -> str:
        """The command line that runs the toolkit with all rights."""
        return f"orin-llm {arguments}" if self.is_root else f"sudo {self.program} {arguments}"

    def setup(self, *changes: str) -> str:
        """The command line that makes changes of `orin-llm setup`."""
        return self.as_root("setup apply " + " ".join(f"--only {name}" for name in changes))
