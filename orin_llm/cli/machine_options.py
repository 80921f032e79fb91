"""How commands watch the machine that they measure on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from orin_llm.cli.options import flag
from orin_llm.cli.root_option import Root

MACHINE = "Machine"


@dataclass(frozen=True)
class SensorOptions:
    """Whether sensors are read, and how often."""

    readings: Annotated[
        bool,
        flag("--readings/--no-readings", panel=MACHINE, help="Read the sensors during the runs."),
    ] = True
    interval: Annotated[
        float,
        flag(
            "--interval",
            panel=MACHINE,
            metavar="MS",
            help="Time between two readings. Below 100: of the kernel, not of tegrastats.",
        ),
    ] = 100.0
    root: Root = Path("/")


@dataclass(frozen=True)
class MachineOptions(SensorOptions):
    """What of the machine is watched by `orin-llm bench`."""

    cool_down: Annotated[
        float,
        flag(
            "--cool-down",
            panel=MACHINE,
            metavar="SECONDS",
            help="Before each run wait until the hottest sensor is back within 2 °C, at most so "
            "long.",
        ),
    ] = 0.0

    def reads(self, workload: str) -> bool:
        """Whether sensors are read: of starts only for their temperature."""
        return self.readings and (workload != "load" or self.cool_down > 0)
