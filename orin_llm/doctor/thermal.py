"""Heat, throttling, over-current, and the fan."""

from __future__ import annotations

from collections.abc import Iterator

from orin_llm.device.modules import THROTTLING_C
from orin_llm.doctor.finding import Finding
from orin_llm.doctor.machine import Machine

WARM_C = 85.0


def temperature(machine: Machine) -> Iterator[Finding]:
    """Headroom to where clocks are lowered."""
    if not machine.board.is_jetson:
        return
    sensors = [sensor for r in machine.readings for sensor in r.temperatures_c.items()]
    if not sensors:
        yield Finding("temperature", "unknown", "no sensor can be read")
        return
    name, hottest = max(sensors, key=lambda sensor: sensor[1])
    found = f"{hottest:.1f} °C ({name}), clocks are lowered from {THROTTLING_C:.0f} °C on"
    expected = f"below {WARM_C:.0f} °C"
    fix = f"cool it, or let the fan begin earlier: {machine.setup('fan')}"
    if hottest >= THROTTLING_C:
        yield Finding("temperature", "hurts", found, expected, fix)
    elif hottest >= WARM_C:
        yield Finding("temperature", "warning", found, expected, fix)
    else:
        yield Finding("temperature", "ok", found)


def throttling(machine: Machine) -> Iterator[Finding]:
    """Nothing lowers the clocks now."""
    if not machine.board.is_jetson:
        return
    told = [r.throttled for r in machine.readings if r.throttled is not None]
    causes = sorted({cause for causes in told for cause in causes})
    if causes:
        yield Finding(
            "throttling",
            "hurts",
            f"clocks are lowered now: {', '.join(causes)}",
            expected="nothing lowers them",
            fix="cool it, or choose a power mode with a smaller budget",
        )
    elif told:
        yield Finding("throttling", "ok", "nothing lowers the clocks")
    else:
        yield Finding("throttling", "unknown", "nothing tells whether clocks are lowered")


def over_current(machine: Machine) -> Iterator[Finding]:
    """The supply was never asked for more than it gives."""
    if not machine.board.is_jetson:
        return
    counts = [r.over_current_events for r in machine.readings if r.over_current_events is not None]
    if not counts:
        yield Finding("over-current", "unknown", "the events are not counted here")
    elif events := max(counts):
        yield Finding(
            "over-current",
            "warning",
            f"{events} {'event' if events == 1 else 'events'} since the machine was started: "
            "clocks were lowered at each",
            expected="none",
            fix="a stronger power supply, or a power mode with a smaller budget",
        )
    else:
        yield Finding("over-current", "ok", "no event since the machine was started")


def fan(machine: Machine) -> Iterator[Finding]:
    """The fan's profile puts cool before quiet."""
    if not machine.board.is_jetson:
        return
    profile = machine.system.fan_profile
    if profile is None:
        yield Finding("fan", "unknown", "nvfancontrol tells no profile: is this board cooled?")
    elif profile == "quiet":
        yield Finding(
            "fan",
            "warning",
            "profile quiet: it begins late, and long work may be throttled",
            expected="cool",
            fix=machine.setup("fan"),
        )
    else:
        yield Finding("fan", "ok", f"profile {profile}")
