"""The files of a trace: each appears whole or not at all."""

from __future__ import annotations

from pathlib import Path

from orin_llm.models.output_file import new_file
from orin_llm.trace.events import write_trace
from orin_llm.trace.lanes import lanes
from orin_llm.trace.record import Recorded


def write_files(recorded: Recorded, trace: Path, picture: Path | None) -> tuple[str, ...]:
    """Write the trace, and a picture of the run; returns what the trace leaves out.

    Files of these names are replaced: whether they may be is asked before the run.

    Raises:
        OrinError: they cannot be written.
    """
    shown = lanes(recorded.run)
    about = {
        "workload": recorded.workload,
        "engine": recorded.settings,
        **recorded.where,
        "left_out": list(shown.left_out),
    }
    with new_file(trace, force=True) as part, part.open("w", encoding="utf-8") as file:
        write_trace(file, shown.events, about)
    if picture is not None:
        from orin_llm.plots.charts import save_png
        from orin_llm.trace.picture import picture as draw

        model = recorded.where["model"]["name"]
        save_png(draw(recorded.run, f"{model}: {recorded.label}"), picture)
    return shown.left_out
