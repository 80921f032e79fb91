"""Alerts: raised once when something is too much, and cleared once when it is well below again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from orin_llm.monitor import rules
from orin_llm.monitor.numbers import finite
from orin_llm.monitor.rules import MACHINE, Measured
from orin_llm.monitor.snapshot import Snapshot
from orin_llm.monitor.state import Alert, AlertEvent, EngineFigures
from orin_llm.monitor.thresholds import Occurrence, Threshold, Thresholds


class AlertBook:
    """Which alerts are up.

    For each rule and subject raised and cleared alternate. A value that cannot be read leaves all
    as it is; an engine that is gone clears its alerts, but for that which tells that it is lost.
    """

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._over_current_events: int | None = None

    def update(
        self,
        snapshot: Snapshot,
        figures: Sequence[EngineFigures],
        problems: Mapping[str, str] | None = None,
    ) -> tuple[tuple[Alert, ...], tuple[AlertEvent, ...]]:
        """The alerts that are up, the oldest first, and those that this snapshot began or ended.

        Args:
            problems: why engines give nothing, by their titles.
        """
        events = list(self._end_gone(snapshot, figures))
        for measured in self._measure(snapshot, figures, problems or {}):
            rule: Threshold | Occurrence = getattr(self._thresholds, measured.rule)
            value = finite(measured.value)
            if not rule.enabled:
                continue
            if measured.over:
                events += self._end(snapshot, measured)
            elif value is not None:
                key = measured.rule, measured.subject
                watched = self._watched.setdefault(key, _Watched())
                events += watched.update(snapshot, measured, value, rule)
        up = [watched.alert for watched in self._watched.values() if watched.alert is not None]
        return tuple(sorted(up, key=lambda alert: alert.since_ms)), tuple(events)

    def _measure(
        self, snapshot: Snapshot, figures: Sequence[EngineFigures], problems: Mapping[str, str]
    ) -> Iterator[Measured]:
        before, now = self._over_current_events, snapshot.reading.over_current_events
        if now is not None:
            self._over_current_events = now
        more = None if before is None or now is None else finite(max(0, now - before))
        yield from rules.of_machine(snapshot.reading, more)
        yield from rules.of_engines(figures, self._thresholds)
        lost = {subject for rule, subject in self._watched if rule == "engine_lost"}
        yield from rules.of_problems(problems, figures, lost)

    def _end_gone(
        self, snapshot: Snapshot, figures: Sequence[EngineFigures]
    ) -> Iterator[AlertEvent]:
        present = {MACHINE, *(engine.name for engine in figures)}
        for key in [key for key in self._watched if key[1] not in present]:
            watched = self._watched[key]
            if key[0] == "engine_lost" and watched.alert is not None:
                continue
            del self._watched[key]
            if watched.alert is not None:
                text = f"{watched.label}: engine {watched.whose} has ended"
                yield AlertEvent("cleared", snapshot.at_ms, replace(watched.alert, text=text))

    def _end(self, snapshot: Snapshot, measured: Measured) -> Iterator[AlertEvent]:
        watched = self._watched.pop((measured.rule, measured.subject), None)
        if watched is not None and watched.alert is not None:
            value = finite(measured.value)
            value = watched.alert.value if value is None else value
            alert = replace(watched.alert, value=value, text=measured.over)
            yield AlertEvent("cleared", snapshot.at_ms, alert)


@dataclass
class _Watched:
    """A rule's value over time. Durations are of the readings' clock, which nobody sets.

    Attributes:
        since: when it rose above, as (clock of readings, Unix time), while it is and no alert is
            up.
        quiet_since_ms: when it fell to `clear` or below, while the alert is still up.
        label, whose: what the rule is about, for people.
    """

    since: tuple[float, float] | None = None
    quiet_since_ms: float | None = None
    alert: Alert | None = None
    label: str = ""
    whose: str = ""

    def update(
        self, snapshot: Snapshot, measured: Measured, value: float, rule: Threshold | Occurrence
    ) -> Iterator[AlertEvent]:
        """Take a value that could be read."""
        self.label, self.whose = measured.label, measured.whose
        if self.alert is None:
            yield from self._while_down(snapshot, measured, value, rule)
        else:
            yield from self._while_up(snapshot, measured, value, rule, self.alert)

    def _while_down(
        self, snapshot: Snapshot, measured: Measured, value: float, rule: Threshold | Occurrence
    ) -> Iterator[AlertEvent]:
        if value <= rule.above:
            self.since = None
            return
        now_ms = snapshot.reading.at_ms
        self.since = since = self.since or (now_ms, snapshot.at_ms)
        if now_ms - since[0] >= rule.for_s * 1e3:
            text = _up_text(measured, value, rule)
            self.since, self.quiet_since_ms = None, None
            self.alert = Alert(measured.rule, measured.subject, value, rule.above, since[1], text)
            yield AlertEvent("raised", snapshot.at_ms, self.alert)

    def _while_up(
        self,
        snapshot: Snapshot,
        measured: Measured,
        value: float,
        rule: Threshold | Occurrence,
        alert: Alert,
    ) -> Iterator[AlertEvent]:
        if value > rule.clear:
            self.quiet_since_ms = None
            self.alert = replace(alert, value=value, text=_up_text(measured, value, rule))
            return
        now_ms = snapshot.reading.at_ms
        if self.quiet_since_ms is None:
            self.quiet_since_ms = now_ms
        if now_ms - self.quiet_since_ms >= rule.quiet_s * 1e3:
            self.alert = None
            text = f"{measured.text}{rule.clear_text(measured.limit)}{measured.ending}"
            yield AlertEvent("cleared", snapshot.at_ms, replace(alert, value=value, text=text))
        else:
            text = alert.text.removesuffix(measured.lingering) + measured.lingering
            self.alert = replace(alert, text=text)


def _up_text(measured: Measured, value: float, rule: Threshold | Occurrence) -> str:
    return f"{measured.text}{rule.up_text(value, measured.limit)}{measured.ending}"
