"""A line of tegrastats as a reading.

Releases and boards differ in which words a line has, in their order, and in how a value is
written. So each word is understood on its own, and what is not is kept instead of failing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from orin_llm.device.modules import Module
from orin_llm.device.reading import Core, Reading, bandwidth_gb_s, mean, total_power_w

MAX_LINE_CHARS = 8192  # several times the longest that a board prints

_WORD = re.compile(r"(?:[^\s\[\]()]|\[[^\[\]()]*\]|\([^()\[\]]*\))+|\S")
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"  # bounded, so that garbage cannot be a huge integer
_DATE = re.compile(r"[0-9]{2}-[0-9]{2}-[0-9]{4}")
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}")
_SPACE = re.compile(r"([0-9]{1,9})/([0-9]{1,9})([kMG]?)B")
_LARGEST_FREE = re.compile(r"\(lfb ([0-9]{1,9})x([0-9]{1,9})([kMG]?)B\)")
_CACHED = re.compile(r"\(cached [0-9]{1,9}[kMG]?B\)")
# `3%@2133`, `3%`, `@2133`, `3%@[1300,1300]`, `@[314,314,314]`
_LOAD = re.compile(rf"(?:({_NUMBER})%)?(?:@(?:({_NUMBER})|\[({_NUMBER}(?:, *{_NUMBER})*)\]))?")
_TEMPERATURE = re.compile(rf"(\S+)@(-?{_NUMBER})C")
# One, two or three readings, of which the first is that of now.
_POWER = re.compile(rf"({_NUMBER})mW(?:/{_NUMBER}mW){{0,2}}")
# Older releases print no unit; then only the name tells a rail from the clock of an engine.
_RAIL_POWER = re.compile(rf"({_NUMBER})(?:mW)?(?:/{_NUMBER}(?:mW)?){{0,2}}")
_RAIL = re.compile(r"(?:VDD|VIN|POM)_\w+")
_UNIT_BYTES = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_OFF_C = -256.0  # of a sensor whose part of the chip is switched off
_NOT_CONNECTED = "NC"


def parse_tegrastats(line: str | bytes, at_ms: float, module: Module | None = None) -> Reading:
    """Read one line, whatever it is: a value that cannot be understood is missing.

    The percentage of the memory is of its current clock, so the bandwidth follows from both; it is
    None where the module, whose bus has the width that counts, is not known.
    """
    text = line.decode(errors="replace") if isinstance(line, bytes) else line
    words = _WORD.findall(text[:MAX_LINE_CHARS])
    found: dict[str, Any] = {"temperatures_c": {}, "rails_w": {}}
    unknown: list[str] = []
    at = 0
    while at < len(words):
        used = _understand(words[at : at + 3], found)
        if used == 0:
            unknown.append(words[at])
        at += max(1, used)
    emc = found.get("emc_percent"), found.get("emc_mhz")
    return Reading(
        at_ms=at_ms,
        sources=("tegrastats",),
        bandwidth_gb_s=bandwidth_gb_s(*emc, module),
        power_w=total_power_w(found["rails_w"]),
        unknown=tuple(unknown),
        **found,
    )


def _understand(words: list[str], found: dict[str, Any]) -> int:
    """Puts into `found` what the first words say; how many words that took, 0: not understood."""
    word, value, extra = [*words, "", ""][:3]
    if word in _NAMED and (used := _NAMED[word](value, extra, found)):
        return used
    if _DATE.fullmatch(word) or _TIME.fullmatch(word):
        return 1
    if temperature := _TEMPERATURE.fullmatch(word):
        celsius = float(temperature[2])
        if celsius != _OFF_C:
            found["temperatures_c"].setdefault(temperature[1].lower(), celsius)
        return 1
    if power := (_RAIL_POWER if _RAIL.fullmatch(word) else _POWER).fullmatch(value):
        if word != _NOT_CONNECTED:
            found["rails_w"].setdefault(word, float(power[1]) / 1000)
        return 2
    return 0


def _ram(value: str, extra: str, found: dict[str, Any]) -> int:
    used = _space("ram", value, found)
    if used and (free := _LARGEST_FREE.fullmatch(extra)):
        found["largest_free_blocks"] = int(free[1])
        found["largest_free_block_bytes"] = int(free[2]) * _UNIT_BYTES[free[3]]
        return used + 1
    return used


def _swap(value: str, extra: str, found: dict[str, Any]) -> int:
    used = _space("swap", value, found)
    return used + 1 if used and _CACHED.fullmatch(extra) else used


def _space(name: str, value: str, found: dict[str, Any]) -> int:
    match = _SPACE.fullmatch(value)
    if match is None:
        return 0
    unit = _UNIT_BYTES[match[3]]
    found[f"{name}_used_bytes"] = int(match[1]) * unit
    found[f"{name}_total_bytes"] = int(match[2]) * unit
    return 2


def _cpu(value: str, extra: str, found: dict[str, Any]) -> int:
    if not (value.startswith("[") and value.endswith("]")):
        return 0
    cores = []
    for item in value[1:-1].split(","):
        load = _load(item.strip())
        if load is None and item.strip() != "off":
            return 0
        cores.append(Core(True, *load) if load else Core(False))
    found["cores"] = tuple(cores)
    found["cpu_percent"] = mean(core.percent for core in cores)
    return 2


def _emc(value: str, extra: str, found: dict[str, Any]) -> int:
    return _put_load("emc", value, found)


def _gpu(value: str, extra: str, found: dict[str, Any]) -> int:
    return _put_load("gpu", value, found)


def _put_load(name: str, value: str, found: dict[str, Any]) -> int:
    load = _load(value)
    if load is None:
        return 0
    found[f"{name}_percent"], found[f"{name}_mhz"] = load
    return 2


def _load(text: str) -> tuple[float | None, float | None] | None:
    """Percent and MHz, of which one may be missing; None if it is something else.

    Of several clocks (one for each cluster of the GPU) the highest: a gated one has 0.
    """
    match = _LOAD.fullmatch(text)
    if not text or match is None:
        return None
    clocks = [float(clock) for clock in (match[2] or match[3] or "").split(",") if clock]
    return (float(match[1]) if match[1] else None), max(clocks, default=None)


_NAMED: dict[str, Callable[[str, str, dict[str, Any]], int]] = {
    "RAM": _ram,
    "SWAP": _swap,
    "CPU": _cpu,
    "EMC_FREQ": _emc,
    "GR3D_FREQ": _gpu,
}
