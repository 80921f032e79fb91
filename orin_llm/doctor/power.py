"""Power mode, parts of the GPU that are on, clocks of GPU and processor."""

from __future__ import annotations

from collections.abc import Iterator

from orin_llm.device.caps import sms_left
from orin_llm.device.clocks import reaches
from orin_llm.device.modules import Module
from orin_llm.device.power_modes import PowerMode, PowerModes
from orin_llm.doctor.finding import Finding, Level
from orin_llm.doctor.machine import Machine


def power_mode(machine: Machine) -> Iterator[Finding]:
    """The mode is the fastest, or one that was chosen."""
    if not machine.board.is_jetson:
        return
    power, check = machine.power, "power mode"
    if power.now is None or power.modes is None:
        yield Finding(
            check, "unknown", "neither nvpmodel nor its status file tells", fix="nvpmodel -q"
        )
        return
    best, module = fastest(power.modes), machine.board.module
    takes = ", ".join(_takes(power.now, module)) or "all of the GPU"
    if power.now == best:
        yield Finding(check, "ok", power.now.name)
    elif power.at_boot not in (None, power.now) and (power.at_boot == best or power.by_setup):
        yield Finding(
            check,
            "hurts",
            f"{power.now.name} ({takes})",
            expected=f"{power.at_boot.name}, which is set for the next boot",
            fix="sudo reboot",
        )
    elif power.by_setup:
        yield Finding(check, "note", f"{power.now.name}, set by orin-llm setup ({takes})")
    else:
        gates = _sms(power.now.tpc_mask, module) < _sms(best.tpc_mask, module)
        level: Level = "hurts" if gates or power.now.emc_max_mhz is not None else "warning"
        chosen = "" if best.name == "MAXN" else f" --mode {best.name}"
        yield Finding(
            check,
            level,
            f"{power.now.name} ({takes})",
            expected=best.name,
            fix=machine.setup("power-mode") + chosen,
        )


def fastest(modes: PowerModes) -> PowerMode:
    """MAXN, or MAXN_SUPER where there is one; else the mode with the largest budget."""
    return max(
        modes.modes,
        key=lambda mode: (mode.name.startswith("MAXN"), mode.budget_w or 0, mode.name),
    )


def _takes(mode: PowerMode, module: Module | None) -> Iterator[str]:
    """What a mode leaves of the module."""
    if mode.tpc_mask is not None and module:
        yield f"{_sms(mode.tpc_mask, module)} of {module.sm_count} SMs"
    if mode.gpu_max_mhz is not None:
        most = module.gpu_max_mhz if module else None
        yield f"GPU {mode.gpu_max_mhz:g}{'' if most is None else f' of {most:g}'} MHz"
    if mode.emc_max_mhz is not None:
        most_emc = module.emc_max_mhz if module else None
        of = "" if most_emc is None else f" of {most_emc:g}"
        yield f"memory {mode.emc_max_mhz:g}{of} MHz"


def _sms(tpc_mask: int | None, module: Module | None) -> int:
    """SMs that are on: the mask is of the chip, and a module may have fewer."""
    left = sms_left(tpc_mask or 0)
    return min(left, module.sm_count) if module else left


def gpu_units(machine: Machine) -> Iterator[Finding]:
    """All multiprocessors of the module are on."""
    module, mask = machine.board.module, machine.caps.tpc_mask
    if not machine.board.is_jetson:
        return
    if mask is None:
        yield Finding("GPU units", "unknown", "the mask of gated TPCs cannot be read")
        return
    on = _sms(mask, module)
    if module is None:
        yield Finding("GPU units", "unknown", f"{on} SMs are on; the module is not known")
    elif on == module.sm_count:
        yield Finding("GPU units", "ok", f"all {on} SMs are on")
    else:
        now = machine.power.now
        by_mode = now is not None and _sms(now.tpc_mask, module) <= on
        yield Finding(
            "GPU units",
            "hurts",
            f"{on} of {module.sm_count} SMs are on (TPC mask {mask})",
            expected=f"all {module.sm_count}",
            fix="another power mode; its mask may need a reboot" if by_mode else "sudo reboot",
        )


def pinned_clocks(machine: Machine) -> Iterator[Finding]:
    """jetson_clocks holds GPU and memory at their highest clock."""
    if not machine.board.is_jetson:
        return
    least, most = machine.caps.gpu_min_mhz, machine.caps.gpu_max_mhz
    emc = machine.system.emc_pinned
    if least is None or most is None:
        yield Finding("jetson_clocks", "unknown", "the clocks of the GPU cannot be read")
    elif reaches(least, most) and emc is not False:
        what = "GPU and memory" if emc else "the GPU's clock"
        yield Finding("jetson_clocks", "ok", f"{what} pinned: {most:g} MHz")
    else:
        found = f"the GPU's clock moves between {least:g} and {most:g} MHz"
        if reaches(least, most):
            found = "the GPU's clock is pinned, the memory's is not"
        yield Finding(
            "jetson_clocks",
            "warning",
            found,
            expected="pinned, so that the first tokens do not wait for it to rise",
            fix=machine.setup("clocks"),
        )


def gpu_clock(machine: Machine) -> Iterator[Finding]:
    """The GPU may reach the module's highest clock, or the mode says why not."""
    module, cap = machine.board.module, machine.caps.gpu_max_mhz
    if not machine.board.is_jetson:
        return
    if cap is None:
        yield Finding("GPU clock", "unknown", "the highest clock of the GPU cannot be read")
        return
    most = module.gpu_max_mhz if module else None
    of_mode = machine.power.now.gpu_max_mhz if machine.power.now else None
    if most is None or reaches(cap, most):
        yield Finding("GPU clock", "ok", f"up to {cap:g} MHz")
    elif of_mode is not None and reaches(cap, of_mode):
        found = f"up to {cap:g} of {most:g} MHz, by the power mode"
        yield Finding("GPU clock", "note", found)
    else:
        yield Finding(
            "GPU clock",
            "hurts",
            f"up to {cap:g} of {most:g} MHz, and not by the power mode",
            expected=f"{most if of_mode is None else min(most, of_mode):g} MHz",
            fix="set the power mode again, or reboot: another program has lowered max_freq",
        )


def processor_clock(machine: Machine) -> Iterator[Finding]:
    """All cores are on, at the clock that they could have, or the mode says why not."""
    module, caps, mode = machine.board.module, machine.caps, machine.power.now
    if not machine.board.is_jetson:
        return
    if caps.cpus_online is None:
        yield Finding("CPU cores", "unknown", "which cores are on cannot be read")
        return
    cores, mhz = caps.cpus_online, caps.cpu_max_mhz
    hardware = machine.system.cpu_hardware_mhz
    found = str(cores) if module is None else f"{cores} of {module.cpu_cores}"
    found += " cores are on"
    if mhz is not None:
        found += f", up to {mhz:g}{'' if hardware is None else f' of {hardware:g}'} MHz"
    few = module is not None and cores < module.cpu_cores
    slow = None not in (mhz, hardware) and not reaches(mhz or 0, hardware or 0)
    if not (few or slow):
        yield Finding("CPU cores", "ok", found)
    elif mode is not None and (
        (not few or cores >= (mode.cpu_cores or cores + 1))
        and (not slow or reaches(mhz or 0, mode.cpu_max_mhz or float("inf")))
    ):
        yield Finding("CPU cores", "note", f"{found}, by the power mode")
    else:
        yield Finding(
            "CPU cores",
            "warning",
            f"{found}, and not by the power mode",
            expected="all, at their highest clock",
            fix="set the power mode again, or reboot",
        )
