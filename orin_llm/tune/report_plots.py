"""The pictures of a tuning report."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

from orin_llm.plots.charts import Mark, Series, line_chart, save_png
from orin_llm.tune.outcome import Outcome
from orin_llm.tune.report_tables import CHUNK, PAGE, cut, has_knob


def save_pictures(outcome: Outcome, folder: Path) -> dict[str, str]:
    """Write those that there is something to show for; their file names by what they show.

    Raises OrinError where one cannot be written.
    """
    found = {"chunk": _chunk(outcome), "page": _page(outcome), "trials": _trials(outcome)}
    names = {}
    for name, (series, labels, marks) in found.items():
        if not any(len(one.known) > 1 for one in series):
            continue
        title, x_label, y_label, log_x = labels
        figure = line_chart(
            series, title=title, x_label=x_label, y_label=y_label, log_x=log_x, marks=marks
        )
        names[name] = f"{name}.png"
        save_png(figure, folder / names[name])
    return names


Drawn = tuple[list[Series], tuple[str, str, str, bool], list[Mark]]


def _chunk(outcome: Outcome) -> Drawn:
    rows = cut(outcome, CHUNK) if has_knob(outcome, CHUNK) else []
    lengths = sorted({length for s in rows for length in s.measurement.ttft_ms})
    sizes = [float(s.candidate[CHUNK]) for s in rows]
    series = [
        Series(f"{length} tokens", sizes, [s.measurement.ttft_ms.get(length) for s in rows])
        for length in lengths
    ]
    labels = ("TTFT by chunk size", "tokens of a chunk", "TTFT ms", True)
    return series, labels, _chosen(outcome, CHUNK)


def _page(outcome: Outcome) -> Drawn:
    rows = cut(outcome, PAGE) if has_knob(outcome, PAGE) else []
    sizes = [float(s.candidate[PAGE]) for s in rows]
    decode = [s.measurement.pages.decode_compute_ms for s in rows]
    labels = ("Decoding behind the longest prompt", "tokens of a page", "ms a step", True)
    return [Series("a step", sizes, decode)], labels, _chosen(outcome, PAGE)


def _trials(outcome: Outcome) -> Drawn:
    costs = [trial.cost for trial in outcome.trials if trial.cost is not None]
    best = list(accumulate(costs, min))
    numbers = [float(number) for number in range(1, len(costs) + 1)]
    series = [
        Series("a trial", numbers, costs),
        Series("the best so far", numbers, best),
    ]
    return (
        series,
        ("Cost, that of the default being 1", "trials that were measured", "cost", False),
        [],
    )


def _chosen(outcome: Outcome, knob: str) -> list[Mark]:
    if outcome.best is None or not has_knob(outcome, knob):
        return []
    return [Mark(float(outcome.best.candidate[knob]), "chosen")]
