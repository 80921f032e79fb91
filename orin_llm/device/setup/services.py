"""Settings of services that the system has already: the desktop, the fan, groups of a user."""

from __future__ import annotations

import re

from orin_llm.device.setup.change import Change, NotPossible, State
from orin_llm.device.setup.system import System

_FAN = "/etc/nvfancontrol.conf"
_FAN_STATUS = "/var/lib/nvfancontrol/status"  # overrules the configuration while it is there
_FAN_DEFAULT = re.compile(r"(?m)^(\s*FAN_DEFAULT_PROFILE\s+)(\S+)")
_GROUPS = ("video", "jtop")  # the GPU's devices and the memory's clock; jetson-stats


class DesktopChange(Change):
    """State: `target`, what the system boots into."""

    name = "headless"
    title = "boot without a desktop, which takes some 800 MB of the GPU's memory"
    reboot = "yes"

    def read(self, system: System) -> State:
        told = system.ask("systemctl", "get-default")
        if told.returncode != 0:
            raise NotPossible(f"systemctl get-default: {told.stdout.strip()}")
        return {"target": told.stdout.strip()}

    def wanted(self, system: System, now: State) -> State:
        return {"target": "multi-user.target"}

    def write(self, system: System, state: State) -> None:
        system.run("systemctl", "set-default", str(state["target"]))

    def waits_for_reboot(self, system: System, state: State) -> str:
        running = system.ask("systemctl", "is-active", "graphical.target").stdout.strip()
        desktop = state["target"] == "graphical.target"
        if desktop == (running == "active"):
            return ""
        return "the desktop" + (" (it does not run)" if desktop else " (it runs until then)")


class FanChange(Change):
    """State: `profile`, the fan's profile by default."""

    name = "fan"
    title = "cool early, so that long work is not throttled"

    def __init__(self, profile: str) -> None:
        self._profile = profile

    def read(self, system: System) -> State:
        found = _FAN_DEFAULT.search(system.read(_FAN) or "")
        if found is None:
            raise NotPossible(f"{_FAN} has no FAN_DEFAULT_PROFILE")
        return {"profile": found[2]}

    def wanted(self, system: System, now: State) -> State:
        profiles = re.findall(r"(?m)^\s*FAN_PROFILE\s+(\S+)", system.read(_FAN) or "")
        if self._profile not in profiles:
            raise NotPossible(
                f"{_FAN} has no profile {self._profile!r}. It has: {', '.join(profiles) or 'none'}"
            )
        return {"profile": self._profile}

    def write(self, system: System, state: State) -> None:
        text = system.read(_FAN) or ""
        profile = str(state["profile"])
        system.run("systemctl", "stop", "nvfancontrol")
        try:
            system.write(_FAN, _FAN_DEFAULT.sub(lambda found: found[1] + profile, text))
            system.remove(_FAN_STATUS)
        finally:  # a board must not be left without a fan
            system.run("systemctl", "start", "nvfancontrol")


class GroupsChange(Change):
    """State: `user`, and for each group whether it has the user (None: no such group)."""

    name = "groups"
    title = "let the user read the sensors (from the next login on)"

    def __init__(self, user: str) -> None:
        self._user = user

    def read(self, system: System) -> State:
        if self._user in ("", "root"):
            raise NotPossible("no user to add to groups: say --user NAME")
        return {"user": self._user, **_memberships(system, self._user)}

    def wanted(self, system: System, now: State) -> State:
        return {key: True if value is False else value for key, value in now.items()}

    def write(self, system: System, state: State) -> None:
        user = str(state["user"])
        for group, member in _memberships(system, user).items():
            if state.get(group) not in (None, member):
                system.run("gpasswd", "--add" if state[group] else "--delete", user, group)


def _memberships(system: System, user: str) -> dict[str, bool | None]:
    members: dict[str, bool | None] = dict.fromkeys(_GROUPS)
    for line in (system.read("/etc/group") or "").splitlines():
        name, _, _, users = [*line.split(":"), "", "", ""][:4]
        if name in members:
            members[name] = user in users.split(",")
    return members
