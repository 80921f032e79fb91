"""Units of systemd that the setup installs: clocks at every boot, and commands of the toolkit."""

from __future__ import annotations

from abc import abstractmethod

from orin_llm.device.modules import Module
from orin_llm.device.nodes import EMC_CAP
from orin_llm.device.power_modes import read_power_modes
from orin_llm.device.setup.change import Change, NotPossible, State
from orin_llm.device.setup.system import System

FOLDER = "/etc/systemd/system"

# nvpmodel limits what jetson_clocks can pin, so it comes first.
_CLOCKS = """[Unit]
Description=Pin the clocks at the highest that the power mode allows (orin-llm setup)
After=nvpmodel.service orin-llm-emc.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStartPre=/bin/rm -f /run/orin-llm-clocks.conf
ExecStartPre=/usr/bin/jetson_clocks --store /run/orin-llm-clocks.conf
ExecStart=/usr/bin/jetson_clocks
ExecStop=/usr/bin/jetson_clocks --restore /run/orin-llm-clocks.conf

[Install]
WantedBy=multi-user.target
"""
_EMC = """[Unit]
Description=Let the memory's clock go up to {mhz:g} MHz (orin-llm setup)
After=nvpmodel.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStartPre=/bin/sh -c 'cat {node} >/run/orin-llm-emc-cap'
ExecStart=/bin/sh -c 'echo {hz} >{node}'
ExecStop=/bin/sh -c 'cat /run/orin-llm-emc-cap >{node}'

[Install]
WantedBy=multi-user.target
"""


def word(path: str) -> str:
    """The path of a program as one word of a unit; systemd takes none with quotes in it."""
    return f'"{path.replace("%", "%%")}"'


class UnitChange(Change):
    """A unit that runs at every boot, and now. State: `text` of its file (None: no file),
    `enabled` and `active`."""

    unit: str

    @abstractmethod
    def text(self, system: System) -> str:
        """What its file is to hold."""

    def read(self, system: System) -> State:
        text = system.read(self.file)
        if text is None:
            return {"text": None, "enabled": False, "active": False}
        return {
            "text": text,
            "enabled": system.ask("systemctl", "is-enabled", self.unit).stdout.strip() == "enabled",
            "active": system.ask("systemctl", "is-active", self.unit).stdout.strip() == "active",
        }

    def wanted(self, system: System, now: State) -> State:
        return {"text": self.text(system), "enabled": True, "active": True}

    def write(self, system: System, state: State) -> None:
        text = state["text"]
        if system.read(self.file) is not None:
            system.run("systemctl", "disable", "--now", self.unit)  # undone by the text it has
        if text is None:
            system.remove(self.file)
        else:
            system.write(self.file, str(text))
        system.run("systemctl", "daemon-reload")
        if state["enabled"]:
            system.run("systemctl", "enable", self.unit)
        if state["active"]:
            system.run("systemctl", "start", self.unit)


class ClocksChange(UnitChange):
    """jetson_clocks at every boot; what it finds is restored when the unit stops."""

    name = "clocks"
    title = "pin the clocks, so that a token does not wait for them to rise"
    unit = "orin-llm-clocks.service"
    file = f"{FOLDER}/{unit}"

    def text(self, system: System) -> str:
        return _CLOCKS


class EmcChange(UnitChange):
    """The cap of the memory's clock: that of the power mode, or else the module's highest step."""

    name = "emc-cap"
    title = "lift the cap of the memory's clock, which may be 2133 MHz after a boot"
    unit = "orin-llm-emc.service"
    file = f"{FOLDER}/{unit}"

    def __init__(self, mode: str, module: Module | None) -> None:
        self._mode, self._module = mode, module

    def text(self, system: System) -> str:
        node = next((node for node in EMC_CAP if system.path(node).exists()), None)
        if node is None:
            raise NotPossible(f"no cap of the memory's clock is at {' or '.join(EMC_CAP)}")
        highest = self._module.emc_max_mhz if self._module else None
        mhz = read_power_modes(system.root).named(self._mode).emc_max_mhz or highest
        if mhz is None:
            raise NotPossible("the highest clock of this module's memory is not known")
        return _EMC.format(mhz=mhz, hz=round(mhz * 1e6), node=f"/{node}")
