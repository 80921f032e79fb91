"""What is too much: the thresholds of alerts, and the TOML file that sets them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from orin_llm.errors import UsageError
from orin_llm.host.toml_file import read_toml
from orin_llm.monitor.numbers import finite
from orin_llm.monitor.snapshot import Subject

FILE = "monitor.toml"
MAX_WINDOW = 1000  # answers
MAX_SECONDS = 86_400.0
_PARTS = "memory_used", "kv_used"  # rules whose limits are parts of 1
MAX_CELSIUS = 150.0
POWER_W = 25.0  # of a Jetson whose power mode has no budget


@dataclass(frozen=True)
class Threshold:
    """A rule for a value: raised when it is above `above`, cleared at `clear` or below.

    Attributes:
        for_s: how long it must be above before the alert is raised.
        window: of how many answers the value is a mean; None: it is a value of now.
    """

    above: float
    clear: float
    for_s: float = 0.0
    window: int | None = None
    enabled: bool = True

    quiet_s: ClassVar[float] = 0.0

    def up_text(self, value: float, written: Callable[[float], str]) -> str:
        """To be put behind what the value is, while the alert is up; limits as `written`."""
        if value > self.above:
            return f", above {written(self.above)}"
        return f", was above {written(self.above)} and is not down to {written(self.clear)}"

    def clear_text(self, written: Callable[[float], str]) -> str:
        """The same, when it is cleared."""
        return f", not above {written(self.clear)}"


@dataclass(frozen=True)
class Occurrence:
    """A rule for what should not be at all: cleared when it has not been seen for `quiet_s`."""

    quiet_s: float
    enabled: bool = True

    above: ClassVar[float] = 0.0
    clear: ClassVar[float] = 0.0
    for_s: ClassVar[float] = 0.0

    def up_text(self, value: float, written: Callable[[float], str]) -> str:
        """To be put behind what it is: nothing."""
        return ""

    def clear_text(self, written: Callable[[float], str]) -> str:
        """To be put behind what it is, when it is over."""
        return f" for {self.quiet_s:g} s"


@dataclass(frozen=True)
class Thresholds:
    """One for each rule, by its name in the file."""

    temperature_c: Threshold = Threshold(85.0, 80.0)
    power_w: Threshold = Threshold(POWER_W, 0.95 * POWER_W, for_s=5.0)
    memory_used: Threshold = Threshold(0.95, 0.90, for_s=5.0)
    kv_used: Threshold = Threshold(0.85, 0.80, for_s=5.0)
    ttft_ms: Threshold = Threshold(500.0, 450.0, window=10)
    tpot_ms: Threshold = Threshold(60.0, 54.0, window=10)
    throttled: Occurrence = Occurrence(10.0)
    over_current: Occurrence = Occurrence(60.0)
    engine_lost: Occurrence = Occurrence(60.0)

    def at_once(self) -> Thresholds:
        """The same without waiting: for who looks only once."""
        rules = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name, rule in rules.items():
            if isinstance(rule, Threshold):
                rules[name] = replace(rule, for_s=0.0)
        return Thresholds(**rules)


def default_thresholds(power_w: float | None) -> Thresholds:
    """For a machine that is to take this power at most; None: nobody knows, and no rule is on."""
    above = power_w or POWER_W
    power = Threshold(above, 0.95 * above, for_s=5.0, enabled=power_w is not None)
    return replace(Thresholds(), power_w=power)


def expected_power_w(subject: Subject) -> float | None:
    """What a machine should take at most: its mode's budget; None for a PC."""
    if subject.budget_w is not None:
        return subject.budget_w
    return POWER_W if subject.is_jetson else None


def find_file(root: Path = Path("/")) -> Path | None:
    """The user's file, else that of the machine; None where there is neither."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    own = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~/.config"))
    candidates = (own / "orin-llm" / FILE, root / "etc/orin-llm" / FILE)
    return next((path for path in candidates if path.exists()), None)


def read_thresholds(path: Path, power_w: float | None) -> Thresholds:
    """The thresholds of a file; what it does not set is as by default.

    Raises:
        UsageError: it cannot be read or used; the message says where and what is allowed.
    """
    tables = read_toml(path)
    try:
        return _thresholds(tables, default_thresholds(power_w))
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error


def _thresholds(tables: Mapping[str, Any], defaults: Thresholds) -> Thresholds:
    rules: dict[str, Any] = {
        entry.name: getattr(defaults, entry.name) for entry in fields(defaults)
    }
    for name, table in tables.items():
        if name not in rules:
            raise ValueError(f"there is no [{name}]. Allowed: {', '.join(rules)}")
        if not isinstance(table, dict):
            raise ValueError(f"{name} is {table!r}: expected a table, [{name}] and lines below it")
        default = rules[name]
        _check_keys(name, table, default)
        if isinstance(default, Threshold):
            rules[name] = _threshold(name, table, default)
        else:
            rules[name] = replace(default, **table)
    return Thresholds(**rules)


def _threshold(name: str, table: Mapping[str, Any], default: Threshold) -> Threshold:
    above = table.get("above", default.above)
    # Who moves only one of the two keeps the distance between them.
    clear = table.get("clear", above * default.clear / default.above)
    if clear >= above:
        raise ValueError(
            f"{name}.clear is {clear:g}, {name}.above {above:g}: clear must be below above, so "
            "that a value near it does not raise alert after alert"
        )
    enabled = table.get("enabled", default.enabled or "above" in table)
    return replace(default, **{**table, "above": above, "clear": clear, "enabled": enabled})


def _check_keys(name: str, table: Mapping[str, Any], default: Threshold | Occurrence) -> None:
    allowed = [entry.name for entry in fields(default) if getattr(default, entry.name) is not None]
    for key, value in table.items():
        if key not in allowed:
            raise ValueError(f"there is no {name}.{key}. Allowed: {', '.join(allowed)}")
        expected = _expected(key, value) or _expected_limit(name, key, value)
        if expected:
            raise ValueError(f"{name}.{key} is {value!r}: expected {expected}")


def _expected(key: str, value: object) -> str:
    """What a key's value must be; "" if it is."""
    if key == "enabled":
        return "" if isinstance(value, bool) else "true or false"
    if key == "window":
        fits = type(value) is int and 1 <= value <= MAX_WINDOW
        return "" if fits else f"a whole number of answers, 1 … {MAX_WINDOW}"
    number = finite(value)
    if key in ("for_s", "quiet_s"):
        fits = number is not None and 0 <= number <= MAX_SECONDS
        return "" if fits else f"seconds, 0 … {MAX_SECONDS:g}"
    return "" if number is not None and number > 0 else "a number above 0"


def _expected_limit(name: str, key: str, value: float) -> str:
    """What a limit must be that is a number above 0; "" if it is."""
    if key in ("above", "clear"):
        if name in _PARTS and value > 1:
            return "a part of 1, such as 0.85"
        if name == "temperature_c" and value > MAX_CELSIUS:
            return f"degrees Celsius, at most {MAX_CELSIUS:g}"
    return ""
