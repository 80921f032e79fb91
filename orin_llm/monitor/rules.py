"""What each rule of the thresholds looks at, and how that is told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from orin_llm.device.reading import Reading
from orin_llm.monitor.figures import OLD_MIN
from orin_llm.monitor.numbers import finite
from orin_llm.monitor.snapshot import TITLE
from orin_llm.monitor.state import EngineFigures
from orin_llm.monitor.thresholds import Thresholds

_NO_ANSWER = f"no answer for {OLD_MIN} min"
MACHINE = ""  # the subject of alerts that are of no engine


@dataclass(frozen=True)
class Measured:
    """A value that a rule is about.

    Attributes:
        subject: the engine's name; "" for the machine.
        value: None where it cannot be read.
        text: what it is and how much, with its unit.
        unit: of limits; `%` where value and limits are parts of 1.
        note: what else there is to say of the value.
        whose: the engine, for people.
        label: what it is, without how much.
        lingering: what is said behind an alert that is still up although this is over.
        over: why an alert is cleared now, whatever the value; "" leaves that to the rule.
    """

    rule: str
    subject: str
    value: float | None
    text: str
    unit: str = ""
    note: str = ""
    whose: str = ""
    label: str = ""
    lingering: str = ""
    over: str = ""

    @property
    def ending(self) -> str:
        """What is said behind the limit: a narrow terminal cuts it first."""
        return self.note + (f": {self.whose}" if self.whose else "")

    def limit(self, bound: float) -> str:
        """A limit of this value, with its unit."""
        return f"{100 * bound if self.unit == '%' else bound:g} {self.unit}"


def of_machine(reading: Reading, more_over_current_events: float | None) -> Iterator[Measured]:
    """The machine's values; the events are those since the reading before."""
    readable = {name: c for name, c in reading.temperatures_c.items() if finite(c) is not None}
    name, hottest = max(readable.items(), key=lambda item: item[1], default=("", None))
    text = "" if hottest is None else f"temperature {hottest:.1f} °C ({name})"
    yield Measured("temperature_c", MACHINE, hottest, text, "°C")
    text = "" if reading.power_w is None else f"power {reading.power_w:.1f} W"
    yield Measured("power_w", MACHINE, reading.power_w, text, "W")
    used, total = reading.ram_used_bytes, reading.ram_total_bytes
    part = None if used is None or not total else used / total
    yield Measured("memory_used", MACHINE, part, f"memory {100 * (part or 0):.0f} % used", "%")
    causes = reading.throttled
    text = f"throttled: {', '.join(causes)}" if causes else "throttled: nothing"
    count = None if causes is None else len(causes)
    yield Measured("throttled", MACHINE, count, text, lingering=", not now")
    text = f"over-current events: {more_over_current_events or 0:g} more, "
    text += f"{reading.over_current_events or 0} since the machine was started"
    yield Measured("over_current", MACHINE, more_over_current_events, text)


def of_engines(engines: Iterable[EngineFigures], thresholds: Thresholds) -> Iterator[Measured]:
    """The engines' values."""
    for engine in engines:
        whose = f"{PurePath(engine.model).name} ({engine.name})"
        text = f"KV cache {100 * (engine.kv_used or 0):.0f} % full"
        yield Measured(
            "kv_used", engine.name, engine.kv_used, text, "%", whose=whose, label="KV cache"
        )
        ttft, tpot = engine.ttft_ms, engine.tpot_ms
        latencies = (
            ("TTFT", "ttft_ms", ttft, f"{ttft or 0:.0f}", engine.window_answers),
            ("TPOT", "tpot_ms", tpot, f"{tpot or 0:.1f}", engine.tpot_window_answers),
        )
        for label, rule, value, text, n_answers in latencies:
            yield Measured(
                rule,
                engine.name,
                value,
                f"{label} {text} ms",
                "ms",
                note=_mean_of(getattr(thresholds, rule).window),
                whose=whose,
                label=label,
                over="" if n_answers else f"{label}: {_NO_ANSWER}: {whose}",
            )


def of_problems(
    problems: Mapping[str, str], engines: Iterable[EngineFigures], followed: Collection[str]
) -> Iterator[Measured]:
    """Whether engines are lost; `followed` are the names of those that were.

    One that is there again, without a problem, is so at once.
    """
    lost = {
        title.removeprefix(TITLE): f"{title}: {problem}"
        for title, problem in problems.items()
        if title.startswith(TITLE)
    }
    for name, text in lost.items():
        yield Measured("engine_lost", name, 1.0, text)
    present = {engine.name for engine in engines}
    for name in sorted(followed - lost.keys()):
        over = f"{TITLE}{name} answers again" if name in present else ""
        yield Measured("engine_lost", name, 0.0, f"{TITLE}{name}: no problem", over=over)


def _mean_of(window: int | None) -> str:
    return "" if window in (None, 1) else f", mean of {window} answers"
