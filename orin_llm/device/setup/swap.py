"""Swap: a file on the NVMe drive instead of zram, which compresses into the memory it saves."""

from __future__ import annotations

import shutil

from orin_llm.device.setup.change import Change, NotPossible, State
from orin_llm.device.setup.system import System
from orin_llm.host.disk import SPARE_BYTES
from orin_llm.host.units import size_text

_FSTAB, _SWAPS = "/etc/fstab", "/proc/swaps"
_ZRAM = "nvzramconfig.service"


class SwapFileChange(Change):
    """State: `path`, `size_bytes` (None: no file), `fstab` (used at boot) and `on` (used now)."""

    name = "swapfile"
    title = "swap on the NVMe drive, for what is not used while a model runs"

    def __init__(self, size_bytes: int) -> None:
        self._size = size_bytes

    def read(self, system: System) -> State:
        return _state(system, _swap_path(system))

    def wanted(self, system: System, now: State) -> State:
        path, there = str(now["path"]), now["size_bytes"]
        free = shutil.disk_usage(system.path(_nvme_mount(system))).free
        more = self._size - (int(there) if there is not None else 0)
        if more > 0 and more + SPARE_BYTES > free:
            raise NotPossible(f"{size_text(free)} are free for {path}: say a smaller --swap-gb")
        return {"path": path, "size_bytes": self._size, "fstab": True, "on": True}

    def write(self, system: System, state: State) -> None:
        path = str(state["path"])
        now, file = _state(system, path), str(system.path(path))
        fits = now["size_bytes"] == state["size_bytes"]
        if now["on"] and not (fits and state["on"]):
            system.run("swapoff", file)
        if not fits:
            system.remove(path)
            if state["size_bytes"] is not None:
                _make(system, path, int(state["size_bytes"]))
        if state["fstab"] != now["fstab"]:
            _write_fstab(system, path, bool(state["fstab"]))
        if state["on"] and not (now["on"] and fits):
            system.run("swapon", file)


class ZramChange(Change):
    """State: `enabled`, whether swap in compressed memory is made at boot."""

    name = "zram"
    title = "no swap in compressed memory, which the GPU could use"
    reboot = "yes"

    def read(self, system: System) -> State:
        told = system.ask("systemctl", "is-enabled", _ZRAM).stdout.strip()
        if told not in ("enabled", "disabled"):
            raise NotPossible(f"{_ZRAM} is neither enabled nor disabled, but {told}")
        return {"enabled": told == "enabled"}

    def wanted(self, system: System, now: State) -> State:
        _nvme_mount(system)  # else nothing would take its place
        return {"enabled": False}

    def write(self, system: System, state: State) -> None:
        system.run("systemctl", "enable" if state["enabled"] else "disable", _ZRAM)

    def waits_for_reboot(self, system: System, state: State) -> str:
        used = "zram" in (system.read(_SWAPS) or "")
        if used == bool(state["enabled"]):
            return ""
        return "zram (it is used until then)" if used else "zram"


def _nvme_mount(system: System) -> str:
    """Where a partition of an NVMe drive is mounted; `/` if it is one."""
    lines = [line.split() for line in (system.read("/proc/mounts") or "").splitlines()]
    mounts = [line[1] for line in lines if len(line) > 2 and line[0].startswith("/dev/nvme")]
    usable = [mount for mount in mounts if not mount.startswith("/boot") and "\\" not in mount]
    if not usable:
        raise NotPossible("no partition of an NVMe drive is mounted: eMMC wears out by swapping")
    return min(usable, key=len)


def _swap_path(system: System) -> str:
    mount = _nvme_mount(system)
    return "/var/lib/orin-llm/swapfile" if mount == "/" else f"{mount}/orin-llm.swap"


def _state(system: System, path: str) -> State:
    file = system.path(path)
    return {
        "path": path,
        "size_bytes": file.stat().st_size if file.exists() else None,
        "fstab": any(_is_of(line, path) for line in (system.read(_FSTAB) or "").splitlines()),
        "on": any(_is_of(line, str(file)) for line in (system.read(_SWAPS) or "").splitlines()),
    }


def _is_of(line: str, path: str) -> bool:
    return line.split()[:1] == [path]


def _make(system: System, path: str, size: int) -> None:
    file = system.path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)  # what is swapped out may be anybody's secret
    system.run("fallocate", "--length", str(size), str(file))
    system.run("mkswap", str(file))


def _write_fstab(system: System, path: str, wanted: bool) -> None:
    lines = (system.read(_FSTAB) or "").splitlines()
    kept = [line for line in lines if not _is_of(line, path)]
    if wanted:
        kept.append(f"{path} none swap sw 0 0")
    system.write(_FSTAB, "\n".join(kept) + "\n" if kept else "")
