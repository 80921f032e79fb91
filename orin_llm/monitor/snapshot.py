"""What is watched, as it was at one moment, and its form in recordings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from orin_llm.device.reading import Reading
from orin_llm.errors import OrinError
from orin_llm.monitor.numbers import finite

TITLE = "engine "  # before an engine's name where problems are told


@dataclass(frozen=True)
class Subject:
    """The machine, as far as it stays the same.

    Attributes:
        name: of board or PC, for people.
        is_jetson: it has a Tegra, whose power is that of the whole board.
        l4t, jetpack, mode: None where it has none, or nothing tells.
        budget_w: of the power mode; None where it has none.
        peak_bandwidth_gb_s: of the memory; None where nothing tells.
        host: its name in the network; None in a recording that has none.
    """

    name: str
    is_jetson: bool = False
    l4t: str | None = None
    jetpack: str | None = None
    mode: str | None = None
    budget_w: float | None = None
    peak_bandwidth_gb_s: float | None = None
    host: str | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Subject:
        """What `to_json` gave; members that are not known are left out.

        Raises:
            OrinError: a member is of another type.
        """
        return cls(
            name=_text(data, "name") or "",
            is_jetson=data.get("is_jetson") is True,
            l4t=_text(data, "l4t"),
            jetpack=_text(data, "jetpack"),
            mode=_text(data, "mode"),
            budget_w=_number(data, "budget_w"),
            peak_bandwidth_gb_s=_number(data, "peak_bandwidth_gb_s"),
            host=_text(data, "host"),
        )


@dataclass(frozen=True)
class EngineSample:
    """What an engine said last.

    Attributes:
        name: of its socket, without `.sock`: process and number.
        model: its file.
        statistics: a line as docs/statistics.md describes it.
    """

    name: str
    pid: int
    model: str
    statistics: Mapping[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """The machine and its engines at a time.

    Attributes:
        at_ms: Unix time.
    """

    at_ms: float
    reading: Reading
    engines: tuple[EngineSample, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All of it: a line of a recording."""
        return {
            "at_ms": self.at_ms,
            "reading": self.reading.to_json(),
            "engines": [asdict(engine) for engine in self.engines],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Snapshot:
        """What `to_json` gave; members that are not known are left out.

        Raises:
            OrinError: something is missing or of another type.
        """
        at_ms = _number(data, "at_ms")
        reading, engines = data.get("reading"), data.get("engines", [])
        if at_ms is None or not isinstance(reading, dict) or not isinstance(engines, list):
            raise OrinError("expected a snapshot: an object with at_ms, reading and engines")
        return cls(at_ms, Reading.from_json(reading), tuple(_engine(engine) for engine in engines))


def _engine(data: Any) -> EngineSample:
    if not isinstance(data, dict) or not isinstance(data.get("statistics"), dict):
        raise OrinError("expected an engine: an object with name, pid, model and statistics")
    pid = _number(data, "pid")
    if pid is None or pid != int(pid):
        raise OrinError("pid: expected a whole number")
    return EngineSample(
        _text(data, "name") or "", int(pid), _text(data, "model") or "", data["statistics"]
    )


def _text(data: Mapping[str, Any], name: str) -> str | None:
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        raise OrinError(f"{name}: expected text, found {value!r}")
    return value


def _number(data: Mapping[str, Any], name: str) -> float | None:
    value = data.get(name)
    if value is None:
        return None
    number = finite(value)
    if number is None:
        raise OrinError(f"{name}: expected a number, found {value!r}")
    return float(number)
