"""The memory's clock, which decoding lives on: two caps, and what it is under load."""

from __future__ import annotations

from collections.abc import Iterator

from orin_llm.device.clocks import reaches
from orin_llm.doctor.finding import Finding
from orin_llm.doctor.machine import Machine


def cap_of_mode(machine: Machine) -> Iterator[Finding]:
    """The cap that nvpmodel, or whoever wrote it last, has set."""
    module, cap = machine.board.module, machine.caps.emc_cap_mhz
    if not machine.board.is_jetson or module is None or module.emc_max_mhz is None:
        return
    if cap is None or reaches(cap, module.emc_max_mhz):
        yield Finding("memory cap", "ok", f"none below {module.emc_max_mhz} MHz")
        return
    mode = machine.power.now
    by_mode = mode is not None and mode.emc_max_mhz is not None
    yield Finding(
        "memory cap",
        "hurts",
        _less(machine, cap) + (f", by {mode.name}" if mode and by_mode else ""),
        expected=f"{module.emc_max_mhz} MHz",
        fix=machine.setup("power-mode" if by_mode else "emc-cap"),
    )


def cap_of_firmware(machine: Machine) -> Iterator[Finding]:
    """The cap that the boot firmware sets: 2133 MHz, until a service of JetPack lifts it."""
    module, cap = machine.board.module, machine.caps.emc_firmware_max_mhz
    if not machine.board.is_jetson or module is None or module.emc_max_mhz is None:
        return
    if cap is None:
        yield _unread(machine, "firmware's cap")
    elif reaches(cap, module.emc_max_mhz):
        yield Finding("firmware's cap", "ok", f"none below {module.emc_max_mhz} MHz")
    else:
        yield Finding(
            "firmware's cap",
            "hurts",
            _less(machine, cap),
            expected=f"{module.emc_max_mhz} MHz: a service of JetPack lifts it after the boot",
            fix=f"{machine.setup('emc-cap')}; if it stays so, JetPack's own services do not run",
        )


def clock_under_load(machine: Machine) -> Iterator[Finding]:
    """What counts: the clock while all cores copy memory."""
    module, load = machine.board.module, machine.under_load
    if not machine.board.is_jetson or module is None or module.emc_max_mhz is None:
        return
    if load is None:
        yield Finding("memory clock", "unknown", "no load was made (--no-load), or no sensor read")
        return
    clocks = [r.emc_mhz for r in load.readings if r.emc_mhz is not None]
    if not clocks:
        yield _unread(machine, "memory clock")
        return
    highest, most = max(clocks), module.emc_max_mhz
    if reaches(highest, most):
        yield Finding("memory clock", "ok", f"{highest:g} MHz under load")
        return
    allowed = machine.caps.emc_max_mhz(module) or most
    capped = not reaches(allowed, most)
    yield Finding(
        "memory clock",
        "hurts",
        f"{_less(machine, highest)} under load",
        expected=f"{most} MHz",
        fix="lift the cap that is named above"
        if capped
        else f"{machine.setup('emc-cap', 'clocks')}",
    )


def _less(machine: Machine, mhz: float) -> str:
    module = machine.board.module
    assert module is not None
    return (
        f"{mhz:g} of {module.emc_max_mhz} MHz: {module.bandwidth_gb_s(mhz):.1f} of "
        f"{module.peak_bandwidth_gb_s:.1f} GB/s"
    )


def _unread(machine: Machine, check: str) -> Finding:
    if machine.is_root:
        return Finding(check, "unknown", "debugfs has no clock of the memory: is it mounted?")
    fix = f"{machine.as_root('doctor')}; or let the group video read it: {machine.setup('udev')}"
    return Finding(check, "unknown", "only root can read it", fix=fix)
