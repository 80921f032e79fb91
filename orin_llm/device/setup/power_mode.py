"""The power mode, by name. Another number of GPU cores needs a reboot, which nvpmodel asks for."""

from __future__ import annotations

from orin_llm.device.nodes import TPC_MASK, first_int
from orin_llm.device.power_modes import (
    PowerMode,
    current_power_mode,
    read_power_modes,
    recorded_power_mode,
)
from orin_llm.device.setup.change import Change, NotPossible, State
from orin_llm.device.setup.system import System
from orin_llm.errors import OrinError

STATUS = "/var/lib/nvpmodel/status"  # `pmode:0002 fmode:fan_mode_quiet`: the mode of the next boot
_PINNING_UNITS = ("orin-llm-emc.service", "orin-llm-clocks.service")


class PowerModeChange(Change):
    """State: `mode`, the name of what is set for the next boot."""

    name = "power-mode"
    title = "let GPU, CPU and memory run as fast as the board allows"
    reboot = "maybe"

    def __init__(self, mode: str) -> None:
        self._mode = mode

    def read(self, system: System) -> State:
        mode = _mode_at_boot(system)
        if mode is None:
            raise NotPossible("neither nvpmodel nor its status file tells the power mode")
        return {"mode": mode.name}

    def wanted(self, system: System, now: State) -> State:
        return {"mode": read_power_modes(system.root).named(self._mode).name}

    def write(self, system: System, state: State) -> None:
        mode = read_power_modes(system.root).named(str(state["mode"]))
        # It asks whether to reboot where it must. A mode that is then declined is not recorded.
        done = system.ask("nvpmodel", "-m", str(mode.id), answer="no\n")
        if "reboot required" in done.stdout.lower():
            system.write(STATUS, _with_mode(system.read(STATUS) or "", mode.id))
        elif done.returncode != 0:
            raise OrinError(f"nvpmodel did not set {mode.name}: {done.stdout.strip()}")
        # Clocks that are pinned are those of the mode before.
        for unit in _PINNING_UNITS:
            if system.ask("systemctl", "is-active", unit).stdout.strip() == "active":
                system.run("systemctl", "restart", unit)

    def waits_for_reboot(self, system: System, state: State) -> str:
        modes = read_power_modes(system.root)
        mode = modes.named(str(state["mode"]))
        running = current_power_mode(modes, system.root)
        mask = first_int(system.root, TPC_MASK)
        if running is not None and running != mode:
            return f"power mode {mode.name} (it is {running.name} until then)"
        if None not in (mask, mode.tpc_mask) and mask != mode.tpc_mask:
            return f"power mode {mode.name} (other parts of the GPU are switched off until then)"
        return ""


def _mode_at_boot(system: System) -> PowerMode | None:
    modes = read_power_modes(system.root)
    return recorded_power_mode(modes, system.root) or current_power_mode(modes, system.root)


def _with_mode(status: str, mode_id: int) -> str:
    """The status file's text with another mode; the fan's part stays."""
    others = [word for word in status.split() if not word.startswith("pmode:")]
    return " ".join([f"pmode:{mode_id:04d}", *others]) + "\n"
