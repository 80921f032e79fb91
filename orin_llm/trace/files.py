"""The files of a trace: each appears whole or not at all.

Files of these names are replaced: whether they may be is asked before the run. OrinError says why
one could not be written.
"""

from __future__ import annotations

from pathlib import Path

from orin_llm.models.output_file import new_file
from orin_llm.trace.events import write_trace
from orin_llm.trace.lanes import Lanes
from orin_llm.trace.record import Recorded


def write_trace_file(recorded: Recorded, shown: Lanes, path: Path) -> None:
    """Write the events, and on what they were seen."""
    about = {
        "workload": recorded.workload,
        "engine": recorded.settings,
        **recorded.where,
        "left_out": list(shown.left_out),
    }
    with new_file(path, force=True) as part, part.open("w", encoding="utf-8") as file:
        write_trace(file, shown.events, about)


def write_picture(recorded: Recorded, path: Path) -> None:
    """Write a PNG of the run."""
    from orin_llm.plots.charts import save_png
    from orin_llm.trace.picture import picture

    model = recorded.where["model"]["name"]
    save_png(picture(recorded.run, f"{model}: {recorded.label}"), path)
