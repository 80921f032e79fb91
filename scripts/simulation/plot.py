"""Draws how times are distributed, a row of panels per trace and a line per policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .figures import itls_ms, tpots_ms, ttfts_ms
from .simulator import Run

COLOURS = {"balanced": "#4477aa", "ttft": "#cc3311", "tpot": "#228833"}

TIMES: dict[str, Callable[[Run], list[float]]] = {
    "TTFT of requests": ttfts_ms,
    "TPOT of requests": tpots_ms,
    "ITL": itls_ms,
}


def plot(runs: Mapping[tuple[str, str], Run], path: Path) -> None:
    """Writes a PNG. `runs` by trace and policy."""
    traces = list(dict.fromkeys(trace for trace, _ in runs))
    figure = Figure(figsize=(12, 2.2 * len(traces) + 1), layout="constrained")
    panels = figure.subplots(len(traces), len(TIMES), squeeze=False, sharex="col", sharey=True)
    for (trace, policy), run in runs.items():
        row = panels[traces.index(trace)]
        row[0].set_ylabel(trace)
        for panel, times_ms in zip(row, TIMES.values(), strict=True):
            _draw(panel, times_ms(run), policy)
    for panel, title in zip(panels[0], TIMES, strict=True):
        panel.set_title(title)
    for panel in panels[-1]:
        panel.set_xlabel("ms")
    panels[0][0].legend(loc="lower left")
    figure.suptitle(
        "Share of all above a time. Model of an 8B Q4_K_M on the AGX Orin, not a measurement"
    )
    figure.savefig(path, format="png")


def _draw(panel: Any, times_ms: list[float], policy: str) -> None:
    ordered = np.sort(times_ms)
    share_above = 1 - np.arange(len(ordered)) / len(ordered)
    panel.plot(ordered, share_above, label=policy, color=COLOURS[policy], linewidth=1.4)
    panel.set(xscale="log", yscale="log", ylim=(5e-3, 1.1))
    panel.set_yticks([0.5, 0.05, 0.01], ["50 %", "5 %", "1 %"])
    panel.grid(alpha=0.3)
