"""What each rule of the thresholds looks at, and how that is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from orin_llm.device.reading import Reading
from orin_llm.monitor.numbers import finite
from orin_llm.monitor.state import EngineFigures
from orin_llm.monitor.thresholds import Thresholds

MACHINE = ""  # the subject of alerts that are of no engine


@dataclass(frozen=True)
class Measured:
    """A value that a rule is about.

    Attributes:
        subject: the engine's name; "" for the machine.
        value: None where it cannot be read.
        text: what it is and how much.
    """

    rule: str
    subject: str
    value: float | None
    text: str


def of_machine(reading: Reading, more_over_current_events: float | None) -> Iterator[Measured]:
    """The machine's values; the events are those since the reading before."""
    readable = {name: c for name, c in reading.temperatures_c.items() if finite(c) is not None}
    name, hottest = max(readable.items(), key=lambda item: item[1], default=("", None))
    text = "" if hottest is None else f"temperature {hottest:.1f} °C ({name})"
    yield Measured("temperature_c", MACHINE, hottest, text)
    text = "" if reading.power_w is None else f"power {reading.power_w:.1f} W"
    yield Measured("power_w", MACHINE, reading.power_w, text)
    causes = reading.throttled
    text = f"throttled: {', '.join(causes)}" if causes else "throttled: nothing"
    yield Measured("throttled", MACHINE, None if causes is None else len(causes), text)
    text = f"over-current events: {more_over_current_events or 0:g} more, "
    text += f"{reading.over_current_events or 0} since the machine was started"
    yield Measured("over_current", MACHINE, more_over_current_events, text)


def of_engines(engines: Iterable[EngineFigures], thresholds: Thresholds) -> Iterator[Measured]:
    """The engines' values."""
    for engine in engines:
        model = PurePath(engine.model).name
        text = f"KV cache of {model} {engine.kv_used or 0:.3f} full"
        yield Measured("kv_used", engine.name, engine.kv_used, text)
        text = f"TTFT of {model} {engine.ttft_ms or 0:.1f} ms, mean of"
        text += f" {thresholds.ttft_ms.window} answers"
        yield Measured("ttft_ms", engine.name, engine.ttft_ms, text)
        text = f"TPOT of {model} {engine.tpot_ms or 0:.1f} ms, mean of"
        text += f" {thresholds.tpot_ms.window} answers"
        yield Measured("tpot_ms", engine.name, engine.tpot_ms, text)
