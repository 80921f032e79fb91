"""From one snapshot to the next: the engines' figures and the alerts that follow."""

from __future__ import annotations

from collections.abc import Mapping

from orin_llm.monitor.alerts import AlertBook
from orin_llm.monitor.figures import Figures
from orin_llm.monitor.snapshot import Snapshot
from orin_llm.monitor.state import State
from orin_llm.monitor.thresholds import Thresholds


class Watch:
    """Follows a machine. What it remembers does not grow with time.

    Attributes:
        thresholds: that its alerts have.
    """

    def __init__(self, thresholds: Thresholds) -> None:
        self.thresholds = thresholds
        self._figures = Figures(
            ttft_window=thresholds.ttft_ms.window or 1, tpot_window=thresholds.tpot_ms.window or 1
        )
        self._alerts = AlertBook(thresholds)

    def update(self, snapshot: Snapshot, problems: Mapping[str, str] | None = None) -> State:
        """The state at a snapshot; `problems` are those of the feed that gave it."""
        engines = self._figures.update(snapshot)
        alerts, events = self._alerts.update(snapshot, engines, problems)
        return State(snapshot, engines, alerts, events, dict(problems or {}))
