"""Releases, services and settings around the toolkit that are known to hurt it."""

from __future__ import annotations

from collections.abc import Iterator

from orin_llm.doctor.finding import Finding
from orin_llm.doctor.machine import Machine

_BAD_L4T = "36.4.7"
UNIFIED_MEMORY = "GGML_CUDA_ENABLE_UNIFIED_MEMORY"


def l4t(machine: Machine) -> Iterator[Finding]:
    """The release of Jetson Linux is not the one in which large allocations fail."""
    board = machine.board
    if not board.is_jetson:
        return
    if board.l4t is None:
        yield Finding("L4T", "unknown", "/etc/nv_tegra_release names no release")
    elif board.l4t == _BAD_L4T:
        yield Finding(
            "L4T",
            "hurts",
            f"{_BAD_L4T}: large allocations fail (NvMapMemAllocInternalTagged: error 12)",
            expected="36.5 or newer, or 36.4.4",
            fix="update to 36.5 (JetPack 6.2.2) or go back; until then reboot before a large "
            "model is loaded",
        )
    else:
        of = f" (JetPack {board.jetpack})" if board.jetpack else ""
        yield Finding("L4T", "ok", f"{board.l4t}{of}")


def jetpack(machine: Machine) -> Iterator[Finding]:
    """The JetPack is not one whose Python and CUDA are too old for this program."""
    release = machine.board.jetpack
    if release is None:
        return
    if not release.startswith("5."):
        yield Finding("JetPack", "ok", f"{release} is supported")
        return
    yield Finding(
        "JetPack",
        "warning",
        f"JetPack {release} is out of support: its Python is 3.8, its CUDA 11.4",
        expected="6 or newer",
        fix="flash a newer one from a host, with scripts/flash_orin.sh",
    )


def desktop(machine: Machine) -> Iterator[Finding]:
    """No desktop takes memory that the GPU could have."""
    if not machine.board.is_jetson:
        return
    runs = machine.system.desktop
    if runs is None:
        yield Finding("desktop", "unknown", "running programs cannot be listed")
    elif runs:
        yield Finding(
            "desktop",
            "warning",
            f"{runs} runs: a desktop takes some 800 MB of the GPU's memory",
            expected="none",
            fix=f"{machine.setup('headless')}, then reboot",
        )
    else:
        yield Finding("desktop", "ok", "none runs")


def unified_memory(machine: Machine) -> Iterator[Finding]:
    """The variable that puts weights into managed memory is not set: `0` switches it on too."""
    if not (machine.board.is_jetson or machine.build.cuda):
        return
    value = machine.environ.get(UNIFIED_MEMORY)
    if value is None:
        yield Finding("unified memory", "ok", f"{UNIFIED_MEMORY} is not set")
        return
    yield Finding(
        "unified memory",
        "hurts" if machine.board.is_jetson else "warning",
        f"{UNIFIED_MEMORY}={value} puts weights into managed memory, which is slower",
        expected="not set: any value switches it on, 0 too",
        fix=f"unset {UNIFIED_MEMORY}",
    )


def jtop(machine: Machine) -> Iterator[Finding]:
    """jetson-stats, where it is installed, answers. It is optional."""
    if not machine.board.is_jetson:
        return
    if "jtop" in machine.at_rest.sources:
        yield Finding("jetson-stats", "ok", "its service answers")
        return
    problem = " ".join(machine.sensor_problems.get("jtop", "").split())
    if not problem or "not installed" in problem:
        return
    said = problem.lower()
    if "mismatch" in said:
        expected = "service and client of one version"
        fix = "sudo pip3 install -U jetson-stats, the same here, then restart jtop.service"
    elif "cannot be used" in said:
        expected, fix = "a package that can be imported", "pip install -U jetson-stats"
    elif "can't access" in said or "permission" in said:
        expected = "this user in the group jtop"
        fix = f"{machine.setup('groups')}, then log in again"
    else:
        expected, fix = "a service that answers", "sudo systemctl restart jtop.service"
    yield Finding("jetson-stats", "warning", problem.removeprefix("jtop: "), expected, fix)
